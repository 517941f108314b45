"""Checks of parts that users write: losses, regularizers, structures, banks, kernels and solvers.

A check compares a part with its definition: with differences, with other points, with all outputs.
Then it trains small models by every solver and estimator that takes the part. A broken promise is
an ``AssertionError`` that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

import omkl
from omkl import losses, signatures
from omkl._components import Component, family, function_and_parameters, parameters_of, resolve
from omkl.batch import DesignProblem, DesignSolver, Problem, Solver, as_design, certify
from omkl.batch.problem import BaseProblem
from omkl.batch.solver import BaseSolver
from omkl.exceptions import InputError
from omkl.groups import Bank
from omkl.groups.base import CompiledBank, Input
from omkl.kernels import Kernel, PackedStack, Pair
from omkl.losses import CRF, Logistic, PointwiseLoss, Squared, StructuredHinge, StructuredLoss
from omkl.losses.evaluation import LossFunction
from omkl.online import InverseSqrt, OnlineTrainer, UniformAverage
from omkl.regularizers import L21, Regularizer, SquaredL21
from omkl.structures import Binary, Chain, Multiclass, Structure
from omkl.structures.base import (
    Output,
    Potentials,
    arrays_of,
    inner_product,
    map_arrays,
)

if TYPE_CHECKING:
    from omkl.linear.base import SparseLinear
    from omkl.mkl.base import BatchMKL
    from omkl.mkl.rows import OnlineMKL

#: Width of differences.
WIDTH = 1e-6
#: Number of samples.
N = 40
#: Gap to which solvers solve.
TOL = 1e-3


def _holds(condition: bool | np.bool_, promise: str) -> None:
    if not condition:
        raise AssertionError(promise)


def _equal(value: ArrayLike, expected: ArrayLike, promise: str, tol: float = 1e-5) -> None:
    """Raise an AssertionError unless two arrays agree.

    Differences are relative to the larger of 1 and their values.
    """
    value = np.asarray(value, dtype=np.float64)
    expected = np.asarray(expected, dtype=np.float64)
    agree = value.shape == expected.shape and np.allclose(value, expected, rtol=tol, atol=tol)
    _holds(agree, f"{promise}: found {value}, expected {expected}.")


def _slopes(function: Callable, x: np.ndarray) -> np.ndarray:
    """Return central differences of a function of a vector (n,), along the first axis."""
    slopes = []
    for move in WIDTH * np.eye(len(x)):
        rise = np.asarray(function(x + move)) - np.asarray(function(x - move))
        slopes.append(rise / (2 * WIDTH))
    return np.array(slopes)


def _check_parameters(part: Component, base: type[Component]) -> None:
    """Check that a part is made again from its parameters, and from its string if it has a name."""
    parameters = part.parameters()
    _equal(type(part)(**parameters) == part, True, "Its parameters must make an equal part")
    is_plain = all(isinstance(value, (int, float, str)) for value in parameters.values())
    if part.aliases and is_plain:
        same = resolve(base, part.as_string(), "part") == part
        _equal(same, True, "Its string must make an equal part")


def _samples(n_columns: int, loss: PointwiseLoss | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples whose targets fit a loss, and depend on the first column."""
    X = np.random.default_rng(0).normal(size=(N, n_columns))
    y = X[:, 0] + 0.3 * np.sin(5.0 * X[:, -1])
    if loss is not None and loss.classifies:
        y = np.sign(y)
    elif loss is not None and loss.has_link:
        y = np.round(np.exp(y))
    return X, y


def _solve(
    loss: PointwiseLoss, regularizer: Regularizer, n_columns: int, only: BaseSolver | None = None
) -> int:
    """Check the solutions of all solvers, or of one, that accept a problem; return how many do.

    The problems have a kernel, or a group, for each column.
    """
    X, y = _samples(n_columns, loss)
    grams = PackedStack.from_grams(X.T[:, :, None] * X.T[:, None], np.float64)
    problems: list[tuple[type, Any]] = [(Solver, Problem(grams, y, loss, regularizer, 0.3))]
    with suppress(InputError):  # its prox may not be exact
        problems.append((DesignSolver, DesignProblem(as_design(X), y, loss, regularizer, 0.03)))
    n_solved = 0
    for kind, problem in problems:
        solvers = _of_family(kind)
        if only is not None:
            solvers = [only] if isinstance(only, kind) else []
        optima = []
        for solver in solvers:
            with suppress(InputError):
                optima.append(_optimum(solver, problem))
        if optima:
            _holds(
                max(optima) <= min(optima) + 2.0 * TOL * abs(max(optima)),
                f"Optima of solvers differ: {optima}.",
            )
        n_solved += len(optima)
    return n_solved


def _optimum(solver: BaseSolver, problem: BaseProblem) -> float:
    """Check a solution, its history and its start; return the primal objective."""
    solver.check(problem)
    records: list[Any] = []
    solution = solver.solve(problem, TOL, on_iteration=records.append)
    certificate = certify(problem, solution.model, solution.certificate.rho)
    _holds(
        certificate.proves(TOL),
        f"{solver!r} must solve {problem} to {TOL}, not to {certificate}.",
    )
    _equal(len(records), len(solution.history), "on_iteration must be called with each record")
    again = solver.solve(problem, TOL, start=solution.start)
    _holds(again.certificate.proves(TOL), "A start must lead to a solution of a similar problem.")
    return certificate.primal


#: A callback that must see every round, so that rounds run in Python.
_EVERY_ROUND = SimpleNamespace(on_round=lambda trainer, step: None)


def _learn_both_ways(estimator: OnlineMKL, X: np.ndarray, y: np.ndarray) -> None:
    """Check that an online estimator learns, in compiled calls what it learns in Python rounds."""
    fastest = estimator.set_params(callbacks=()).fit(X, y).predict(X)
    in_python = estimator.set_params(callbacks=[_EVERY_ROUND]).fit(X, y).predict(X)
    _holds(np.isfinite(fastest).all(), f"{estimator} must predict numbers.")
    _holds(
        np.array_equal(fastest, in_python),
        "Compiled calls must learn what Python rounds learn, bit for bit.",
    )


def _fit_certified(estimator: BatchMKL | SparseLinear, X: np.ndarray, y: np.ndarray) -> None:
    gap = estimator.fit(X, y).dual_gap_
    _holds(
        gap <= estimator.tol, f"{estimator} must learn to a gap of {estimator.tol}, not of {gap}."
    )


def check_regularizer(regularizer: Regularizer, n_groups: int = 5) -> None:
    """Check a regularizer, and train models with it.

    Parameters
    ----------
    regularizer : Regularizer
    n_groups : int
        Number of groups that it is for.

    Raises
    ------
    AssertionError
        If a promise of the base class is broken, or a compiled function does not compute the prox.
    InputError
        If a compiled function has another signature, or parameters that are no vector.
    """
    _check_parameters(regularizer, Regularizer)
    rng = np.random.default_rng(0)
    norms = rng.exponential(size=n_groups) + 0.1
    others = 3.0 * rng.normal(size=(200, n_groups))
    small = np.append(np.full(n_groups - 1, 1e-9), 20.0)
    _check_values(regularizer, norms)
    _equal(
        regularizer.is_sparse,
        (regularizer.prox(small, 1.0) == 0.0).any(),
        "is_sparse must say whether prox() sends norms to 0",
    )
    _check_prox(regularizer, 3.0 * norms, others)
    for start in (3.0 * norms, small, np.zeros(n_groups)):
        _check_compiled_steps(regularizer, start)
    _check_conjugate(regularizer, norms, others)
    if regularizer.least_at_one_group:
        shares = np.abs(others) / np.linalg.norm(others, axis=1, keepdims=True)
        least = min(map(regularizer.value, np.eye(n_groups)))
        for share in shares:
            _holds(regularizer.value(share) >= least - 1e-9, "least_at_one_group must hold.")
    _solve(Squared(), regularizer, n_groups)
    X, y = _samples(n_groups)
    kernels = {f"{k}": f"linear:on={k}" for k in range(n_groups)}
    online = omkl.OnlineMKLRegressor(kernels, regularizer=regularizer, random_state=0)
    _learn_both_ways(online, X, y)
    if regularizer.separable:
        _fit_certified(omkl.GroupLasso(0.01, regularizer=regularizer), X, y)
    if regularizer.separable and not regularizer.on_coordinates:
        _fit_certified(omkl.MKLRegressor(kernels, regularizer=regularizer, C=1.0), X, y)


def _check_values(regularizer: Regularizer, norms: np.ndarray) -> None:
    """Check the value at norms (p,), its derivatives, and properties about them."""
    value = regularizer.value(norms)
    slopes = regularizer.slopes
    zeros = np.zeros(len(norms))
    _equal(regularizer.value(zeros), 0.0, "value() must be 0 at 0")
    if np.isfinite(value):
        expected = _slopes(regularizer.value, norms)
        _equal(slopes(norms), expected, "slopes() must be the derivatives of value()")
        _holds((slopes(norms) >= 0).all(), "value() must increase")
        _equal(
            regularizer.reciprocal_weights(norms),
            slopes(norms) / norms,
            "reciprocal_weights() must be slopes() / norms",
        )
    if regularizer.separable:
        values = [regularizer.value(norm * e) for norm, e in zip(norms, np.eye(len(norms)))]
        _equal(value, sum(values), "A separable value() must be a sum over groups")
        _equal(
            regularizer.curvatures(norms),
            np.diag(_slopes(slopes, norms)),
            "curvatures() must be derivatives of slopes()",
            1e-3,
        )
        _equal(
            slopes(zeros).min(),
            regularizer.slope_at_zero,
            "slope_at_zero must be slopes() at 0",
        )
    if regularizer.elastic is not None:
        linear, quadratic = regularizer.elastic
        expected = linear * norms.sum() + 0.5 * quadratic * norms @ norms
        _equal(value, expected, "elastic must give value()")


def _check_conjugate(regularizer: Regularizer, norms: np.ndarray, others: np.ndarray) -> None:
    """Check the conjugate at other points (n, p) against the value at norms (p,)."""
    conjugate = regularizer.conjugate
    if regularizer.exact:
        for other in others:
            scaled = regularizer.dual_scale(other) * other
            _holds(
                np.isfinite(conjugate(scaled)),
                f"conjugate() must be finite at {scaled}, from dual_scale().",
            )
            gap = regularizer.value(np.abs(norms)) + conjugate(other) - norms @ other
            _holds(
                gap >= -1e-6,
                f"conjugate() must be at least y'b - value(), not {conjugate(other)} at {other}.",
            )
    if regularizer.smooth_conjugate:
        gradient = regularizer.conjugate_gradient
        promise = "conjugate_gradient() must be its derivative"
        _equal(gradient(norms), _slopes(conjugate, norms), promise, 1e-4)
        promise = "conjugate_curvature() must be its second derivative"
        curvature = regularizer.conjugate_curvature(norms)
        _equal(curvature, np.diag(_slopes(gradient, norms)), promise, 1e-3)


def _check_prox(regularizer: Regularizer, start: np.ndarray, others: np.ndarray) -> None:
    """Check proximal steps from norms (p,) against other points (n, p)."""
    if np.isfinite(regularizer.value(start)):
        _equal(regularizer.prox(start, 0.0), start, "prox() with step 0 must be the identity")
    for step in (0.3, 2.0):
        moved = regularizer.prox(start, step)
        _holds((moved >= 0.0).all() and (moved <= start).all(), "prox() must shrink.")
        _equal(regularizer.prox(-start, step), -moved, "prox() must keep signs")
        if not regularizer.exact:
            continue
        value = regularizer.value(moved)
        for other in np.abs([*others, *(moved + 1e-3 * others)]):
            # strong convexity: the minimum is lower by half the squared distance
            gained = (moved - start) @ (other - moved)
            excess = step * (regularizer.value(other) - value) + gained
            _holds(
                excess >= -1e-7 * (1.0 + value),
                f"prox() must be the minimizer, not {moved} of {start}.",
            )
        dual = (1.0 - 1e-8) * (start - moved) / step
        attained = value + regularizer.conjugate(dual)
        _equal(attained, moved @ dual, "conjugate() must be attained at the prox")
        if regularizer.differentiable_prox:
            slopes = np.diag(regularizer.prox_slope(start, step))
            coupling = regularizer.prox_coupling(start, step)
            if coupling is not None:
                slopes = slopes - np.outer(coupling, coupling)
            expected = _slopes(lambda x, step=step: regularizer.prox(x, step), start)
            promise = "prox_slope() and prox_coupling() must be the derivatives of prox()"
            _equal(slopes, expected, promise, 1e-4)


def _check_compiled_steps(regularizer: Regularizer, norms: np.ndarray) -> None:
    """Check that compiled proximal steps on norms (p,), if there are some, are those of prox()."""
    for term in regularizer.terms():
        proximal_steps = term.compiled_steps()
        if term.on_coordinates or proximal_steps is None:
            continue
        for proximal_step in proximal_steps:
            signatures.PROX.address_of(proximal_step.function)
        for step in (0.0, 0.3, 2.0):
            moved = norms.copy()
            memory = np.full((2, len(norms)), np.nan)  # nobody may count on its contents
            for proximal_step in proximal_steps:
                proximal_step.take(moved, step, memory)
            promise = f"The compiled function must be prox(), at step {step}"
            _equal(moved, term.prox(norms, step), promise, 1e-9)


def check_loss(loss: PointwiseLoss | StructuredLoss) -> None:
    """Check a loss of numbers, of two classes or of structures, and train models with it.

    Parameters
    ----------
    loss : PointwiseLoss or StructuredLoss

    Raises
    ------
    AssertionError
        If a promise of the base class is broken, or a compiled function does not compute the loss.
    InputError
        If a compiled function has another signature, or parameters that are no vector.
    """
    if isinstance(loss, StructuredLoss):
        _check_parameters(loss, StructuredLoss)
        for structure, size in ((Binary(), 1), (Multiclass(3), 1), (Chain(3), 4)):
            _check_structured_loss(loss, structure, size)
        X, y = _samples(3, Logistic())
        for classes in (y, np.sign(X[:, 1]) + y):
            _learn_both_ways(_online_classifier(loss), X, classes)
        return
    _check_parameters(loss, PointwiseLoss)
    X, y = _samples(3, loss)
    z = X[:, 1]
    others = 4.0 * X[:, 2]
    for points in (z, others, 30.0 * z):
        _check_compiled_number(loss, y, points)
    _check_value_and_gradient(loss, y, z, others)
    _check_conjugate_of_loss(loss, y, z, others)
    for regularizer in (L21(), SquaredL21()):
        _solve(loss, regularizer, 3)
    if loss.classifies:
        _fit_certified(omkl.MKLClassifier(["linear"], loss=loss, regularizer="mkl", C=1.0), X, y)
        _learn_both_ways(_online_classifier(loss), X, y)
        return
    _fit_certified(omkl.GroupLasso(0.01, loss=loss), X, y)
    if not loss.has_link:
        _fit_certified(omkl.MKLRegressor(["linear"], loss=loss, regularizer="mkl", C=1.0), X, y)
        online = omkl.OnlineMKLRegressor(loss=loss, regularizer="block1", random_state=0)
        _learn_both_ways(online, X, y)


def _online_classifier(loss: PointwiseLoss | StructuredLoss) -> Any:
    return omkl.OnlineMKLClassifier(loss=loss, regularizer="block1", random_state=0)


def _check_value_and_gradient(
    loss: PointwiseLoss, y: np.ndarray, z: np.ndarray, others: np.ndarray
) -> None:
    """Check value and gradient at predictions z (n,) against each other, and properties of them."""
    values = loss.value(y, z)
    _holds((values >= 0.0).all(), "value() must be at least 0.")
    tangent = values + loss.gradient(y, z) * (others - z)
    _holds((loss.value(y, others) >= tangent - 1e-9).all(), "gradient() must be a subgradient.")
    grid = np.linspace(-3.0, 3.0, 600_001)
    jumps = np.diff(loss.gradient(np.full(len(grid), y[0]), grid))
    _equal(loss.has_kink, jumps.max() > 0.1, "has_kink must say whether gradient() jumps")
    steepest = np.inf if loss.has_kink else jumps.max() / 1e-5
    _holds(
        steepest <= loss.curvature * (1.0 + 1e-6),
        f"curvature must bound the second derivative {steepest}.",
    )
    if loss.shift_invariant:
        same = not loss.classifies and np.allclose(loss.value(y + 2.0, z + 2.0), values)
        _equal(not same, False, "shift_invariant must say whether errors alone matter")


def _check_conjugate_of_loss(
    loss: PointwiseLoss, y: np.ndarray, z: np.ndarray, others: np.ndarray
) -> None:
    """Check the conjugate and its derivatives against the loss at predictions z (n,)."""
    low, high = loss.domain(y)
    rho = -loss.gradient(y, z)
    _holds(((low <= rho) & (rho <= high)).all(), "domain() must contain all gradients.")
    _equal(
        loss.value(y, z) + loss.conjugate(y, rho),
        -rho * z,
        "value() and conjugate() must add up to -rho z at the gradient",
    )
    near = np.clip(0.1 * others, np.maximum(low, -2.0), np.minimum(high, 2.0))
    inside = 0.5 * rho + 0.5 * near
    slack = loss.conjugate(y, inside) + loss.value(y, others) + inside * others
    _holds((slack >= -1e-6).all(), "conjugate() must be at least -rho z - value().")
    # the conjugate may have no derivative at 0 and at the ends
    is_smooth = np.minimum(np.abs(inside), np.minimum(inside - low, high - inside)) > 1e-3
    inside = inside[is_smooth]
    targets = y[is_smooth]
    for derivative, function, name in (
        (loss.conjugate_gradient, loss.conjugate, "conjugate_gradient"),
        (loss.conjugate_curvature, loss.conjugate_gradient, "conjugate_curvature"),
    ):
        rise = function(targets, inside + WIDTH) - function(targets, inside - WIDTH)
        expected = rise / (2 * WIDTH)
        _equal(derivative(targets, inside), expected, f"{name}() must be a derivative", 2e-3)
    for bound, beyond in ((low, -1e-3), (high, 1e-3)):
        is_finite = np.isfinite(bound)
        outside = loss.conjugate(y[is_finite], bound[is_finite] + beyond)
        _holds(np.isinf(outside).all(), "domain() must be that of conjugate().")


def _check_compiled_number(loss: PointwiseLoss, y: np.ndarray, z: np.ndarray) -> None:
    """Check that a compiled loss of numbers, if there is one, is value and gradient at z (n,)."""
    if loss.compiled is None:
        return
    function, parameters = function_and_parameters(loss)
    signatures.LOSS_OF_NUMBER.address_of(function)
    points = zip(y.tolist(), z.tolist())
    results = [function(target, prediction, parameters) for target, prediction in points]
    values, slopes = np.array(results).T
    _equal(values, loss.value(y, z), "The compiled function must return value()", 1e-9)
    promise = "The compiled function must return gradient() as well"
    _equal(slopes, loss.gradient(y, z), promise, 1e-9)
    value_at_nan, _ = function(y.item(0), np.nan, parameters)
    _holds(
        np.isnan(value_at_nan),
        "The compiled function must be nan at nan, where training stops.",
    )


def _random_potentials(structure: Structure, size: int, seed: int) -> Potentials:
    rng = np.random.default_rng(seed)
    return map_arrays(lambda array: rng.normal(size=array.shape), structure.zeros(size))


def _check_structured_loss(loss: StructuredLoss, structure: Structure, size: int) -> None:
    """Check value and gradient of a loss on a structure against each other, at several points."""
    points = [_random_potentials(structure, size, seed) for seed in range(6)]
    for point, other in pairwise(points):
        gold = structure.decode(other)
        value, gradient = loss.value_and_gradient(structure, point, gold)
        _holds(value >= 0.0, "A loss must be at least 0.")
        ahead = loss.value_and_gradient(structure, other, gold)[0]
        if gradient is not None:
            value += inner_product(gradient, map_arrays(np.subtract, other, point))
        _holds(
            ahead >= value - 1e-7,
            f"The gradient of {loss!r} must be a subgradient in {structure!r}.",
        )
        _check_compiled_labels(loss, structure, point, gold)
        if structure.takes_partial and np.size(gold) > 1:
            _check_compiled_labels(loss, structure, point, np.append(-1, gold[1:]))


def _check_compiled_labels(
    loss: StructuredLoss, structure: Structure, potentials: Potentials, gold: Output
) -> None:
    """Check the compiled functions of a loss and of a structure, if both have some."""
    loss_of = LossFunction(loss, structure)
    if not loss_of.is_compiled or not structure.is_compiled_for(potentials):
        return
    signatures.LOSS_OF_LABELS.address_of(loss_of.function)
    value, gradient = loss_of(potentials, gold)
    expected, slopes = loss.value_and_gradient(structure, potentials, gold)
    loss_and_structure = f"{loss!r} and {type(structure).__name__}"
    promise = f"The compiled functions of {loss_and_structure} must give value and gradient"
    _equal(value, expected, promise, 1e-9)
    zero = map_arrays(np.zeros_like, potentials)
    _equal_arrays(gradient or zero, slopes or zero, promise, 1e-9)


def _equal_arrays(
    potentials: Potentials, expected: Potentials, promise: str, tol: float = 1e-5
) -> None:
    """Raise an AssertionError unless all arrays of potentials agree."""
    for array, expected_array in zip(arrays_of(potentials), arrays_of(expected)):
        _equal(array, expected_array, promise, tol)


def check_structure(
    structure: Structure, size: int = 3, outputs: Sequence[Output] | None = None
) -> None:
    """Check a structure, and its losses.

    Parameters
    ----------
    structure : Structure
    size : int
        Size of the inputs to check.
    outputs : sequence of Output, optional
        All outputs of that size; by default, those that are best for some random scores.

    Raises
    ------
    AssertionError
        If a promise of the base class is broken, or compiled functions do not compute what methods
        do.
    """
    are_all = outputs is not None
    if outputs is None:
        points = [_random_potentials(structure, size, seed) for seed in range(60)]
        outputs = list(map(structure.decode, points))
    has_marginals = type(structure).marginals is not Structure.marginals
    for seed in range(5):
        potentials = _random_potentials(structure, size, seed)
        scores = np.array([structure.score(potentials, output) for output in outputs])
        gold = outputs[seed % len(outputs)]
        _check_decoding(structure, potentials, gold, outputs, scores)
        if has_marginals:
            _check_marginals(structure, potentials, scores, are_all)
    structured_losses: list[StructuredLoss] = [StructuredHinge(), losses.Perceptron()]
    if has_marginals:
        structured_losses += [CRF(), losses.SoftmaxMargin()]
    for loss in structured_losses:
        _check_structured_loss(loss, structure, size)


def _check_decoding(
    structure: Structure,
    potentials: Potentials,
    gold: Output,
    outputs: Sequence[Output],
    scores: np.ndarray,
) -> None:
    """Check the best outputs, costs and differences against the scores (n,) of n outputs."""
    best = structure.decode(potentials)
    score_of_best = structure.score(potentials, best)
    score_of_gold = structure.score(potentials, gold)
    _holds(score_of_best >= scores.max() - 1e-9, "decode() must find the highest score.")
    sum_of_parts = inner_product(potentials, structure.indicator(gold))
    _equal(score_of_gold, sum_of_parts, "score() must sum parts")
    _equal(structure.cost(gold, gold), 0.0, "The cost of the gold output must be 0")
    costs = np.array([structure.cost(gold, output) for output in outputs])
    augmented = structure.loss_augmented(potentials, gold, 2.0)
    value = structure.score(potentials, augmented) + 2.0 * structure.cost(gold, augmented)
    _holds(
        value >= max(scores + 2.0 * costs) - 1e-9, "loss_augmented() must maximize score plus cost."
    )
    difference, _ = structure.difference(potentials, best, gold)
    _equal(difference, score_of_best - score_of_gold, "difference() must be that of scores")


def _check_marginals(
    structure: Structure, potentials: Potentials, scores: np.ndarray, are_all: bool
) -> None:
    """Check marginals against differences, and against scores (n,) of some or of all outputs."""
    log_partition, marginals = structure.marginals(potentials)
    total = np.logaddexp.reduce(scores) if are_all else scores.max()
    _holds(log_partition >= total - 1e-9, "marginals() must sum over all outputs.")
    if are_all:
        excess = max(log_partition - total, 0.0)
        _equal(excess, 0.0, "marginals() must sum over these outputs alone")
    for array, marginals_of_array in zip(arrays_of(potentials), arrays_of(marginals)):
        if not array.size:
            continue
        largest = int(np.argmax(np.abs(marginals_of_array)))
        index = np.unravel_index(largest, array.shape)
        log_partitions = []
        for move in (WIDTH, -WIDTH):
            array[index] += move
            log_partitions.append(structure.marginals(potentials)[0])
            array[index] -= move
        slope = (log_partitions[0] - log_partitions[1]) / (2 * WIDTH)
        promise = "marginals() must be derivatives of log Z"
        _equal(marginals_of_array[index], slope, promise, 1e-4)


def check_bank(bank: Bank, examples: Sequence[tuple[Any, Output]], structure: Structure) -> None:
    """Check an untrained bank with an average: train it, and compare norms, averages and states.

    Parameters
    ----------
    bank : Bank
    examples : sequence of pairs
        Inputs of the bank, and outputs.
    structure : Structure

    Raises
    ------
    AssertionError
        If a promise of the base class is broken.
    """

    def trainer_of(bank: Bank) -> OnlineTrainer:
        return OnlineTrainer(
            [bank],
            structure,
            StructuredHinge(),
            SquaredL21(),
            lambda_=0.05,
            schedule=InverseSqrt(0.5),
            average=UniformAverage(),
        )

    trainer = trainer_of(bank)
    x = examples[0][0]
    total = structure.zeros(len(x))
    n_rounds = 3 * len(examples)
    for round in range(1, n_rounds + 1):
        trainer.update(*examples[round % len(examples)])
        total = map_arrays(np.add, total, trainer.potentials(x))
        norms = trainer.norms.copy()
        trainer.recompute_norms()
        _equal(norms, trainer.norms, "step() and apply_events() must keep norms exact", 1e-4)
    average = trainer.predictor().potentials(x)
    mean = map_arrays(lambda array: array / n_rounds, total)
    _equal_arrays(average, mean, "averaged() must be the mean of all rounds", 1e-4)
    _check_functions_of_a_bank(bank, x, average)
    arguments, options = bank.made_with
    again = trainer_of(type(bank)(*arguments, **options))
    again.load_state(trainer.state())
    trainer.update(*examples[0])
    again.update(*examples[0])
    for loaded, array in zip(arrays_of(again.potentials(x)), arrays_of(trainer.potentials(x))):
        _holds(
            np.array_equal(loaded, array),
            "A bank that has loaded a state() must go on the same, bit for bit.",
        )


def _check_functions_of_a_bank(bank: Bank, x: Input, average: Potentials) -> None:
    """Check what examining parts call, and the signatures of compiled functions."""
    averaged = map_arrays(np.zeros_like, average)
    bank.add_averaged_potentials(x, averaged)
    _equal_arrays(averaged, average, "add_averaged_potentials() must add those of averaged()")
    n_outputs = average.unary.shape[1] if hasattr(average, "unary") else 0
    totals, sums = np.zeros((2, len(bank.names), n_outputs))
    products = bank.inner_products(x, average, totals if n_outputs else None)
    expected = Bank.inner_products(bank, x, average, sums if n_outputs else None)
    _equal(products, expected, "inner_products() must be those of groups")
    _equal(totals, sums, "inner_products() must sum the potentials of each group")
    if isinstance(bank, CompiledBank):
        signatures.addresses_of(bank.functions)


def check_kernel(kernel: Kernel, X: np.ndarray | None = None) -> None:
    """Check a kernel, and train models with it.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d), optional
        Inputs that it takes; numbers between 0 and 1 by default.

    Raises
    ------
    AssertionError
        If a promise of the base class is broken.
    """
    if X is None:
        X = np.random.default_rng(0).random((N, 4))
    _check_parameters(kernel, Kernel)
    fitted = kernel.fit(X)
    matrix = fitted(X)
    view = fitted.view(X)
    _equal(matrix, matrix.T, "A kernel must be symmetric", 1e-9)
    _holds(
        np.linalg.eigvalsh(matrix).min() >= -1e-8 * np.abs(matrix).max(),
        "A kernel must be positive semidefinite.",
    )
    _equal(
        fitted.diagonal(view),
        np.diag(matrix),
        "diagonal() must be that of the matrix; correct raw_diagonal(), or leave it out",
    )
    _equal(
        fitted.between(Pair(view[:5], view[3:])),
        matrix[:5, 3:],
        "raw() must depend on two rows alone",
        1e-9,
    )
    if fitted.feature_count(view.shape[1]) is not None:
        features = np.asarray(fitted.features(view))
        _equal(features @ features.T, matrix, "features() must have the kernel as inner products")
    y = np.where(np.arange(len(X)) % 2 == 0, "a", "b")
    _fit_certified(omkl.MKLClassifier([kernel], regularizer="mkl", C=10.0), X, y)
    omkl.OnlineMKLClassifier([kernel], random_state=0).fit(X, y).predict(X)


def check_solver(solver: Solver | DesignSolver) -> None:
    """Check a solver on all losses and regularizers that it accepts.

    Parameters
    ----------
    solver : Solver or DesignSolver

    Raises
    ------
    AssertionError
        If a promise of the base class is broken.
    """
    _check_parameters(solver, BaseSolver)
    n_solved = 0
    for loss, regularizer in product(_of_family(PointwiseLoss), _of_family(Regularizer)):
        n_solved += _solve(loss, regularizer, 3, solver)
    _holds(n_solved > 0, "It must accept some loss and some regularizer.")


def _of_family(base: type[Component]) -> list[Any]:
    """Return a part for each class with names whose arguments all have defaults."""
    parts_with_defaults = []
    for cls in family(base):
        has_name = bool(vars(cls).get("aliases")) and cls.__module__.startswith("omkl.")
        if has_name and all(p.default is not p.empty for p in parameters_of(cls).values()):
            parts_with_defaults.append(cls())
    return parts_with_defaults
