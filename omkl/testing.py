"""Checks of parts that users write: losses, regularizers, structures, banks, kernels and solvers.

A check compares a part with its definition: with differences, with other points, with all outputs.
Then it trains small models by every solver and estimator that takes the part. A broken promise is
an ``AssertionError`` that names it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np

import omkl
from omkl import losses, signatures
from omkl._components import Component, family, function_and_parameters, parameters_of, resolve
from omkl.batch import DesignProblem, DesignSolver, Problem, Solver, as_design, certify
from omkl.batch.solver import BaseSolver
from omkl.exceptions import InputError
from omkl.groups import Bank
from omkl.groups.base import CompiledBank
from omkl.kernels import Kernel, PackedStack, Pair
from omkl.losses import CRF, Logistic, PointwiseLoss, Squared, StructuredHinge, StructuredLoss
from omkl.losses._jit_unnamed import UNNAMED
from omkl.losses.evaluation import LossFunction
from omkl.online import InverseSqrt, OnlineTrainer, UniformAverage
from omkl.regularizers import L21, Regularizer, SquaredL21
from omkl.structures import Binary, Chain, Multiclass, Structure
from omkl.structures.base import (
    Output,
    Potentials,
    arrays_of,
    inner_product,
    layout_of,
    map_arrays,
    pairs_of,
)

#: Width of differences, number of samples, and the gap to which solvers solve.
WIDTH, N, TOL = 1e-6, 40, 1e-3


def _holds(condition: object, promise: str) -> None:
    if not condition:
        raise AssertionError(promise)


def _equal(found: Any, expected: Any, promise: str, tol: float = 1e-5) -> None:
    """Raise an AssertionError unless two arrays agree, relative to the larger of 1 and their
    values.
    """
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    agree = found.shape == expected.shape and np.allclose(found, expected, rtol=tol, atol=tol)
    _holds(agree, f"{promise}: found {found}, expected {expected}.")


def _slopes(function: Callable, x: np.ndarray) -> np.ndarray:
    """Return central differences of a function of a vector in each of its entries, along the first
    axis.
    """
    moves = WIDTH * np.eye(len(x))
    return np.array(
        [(np.asarray(function(x + e)) - np.asarray(function(x - e))) / (2 * WIDTH) for e in moves]
    )


def _check_parameters(part: Component, base: type[Component]) -> None:
    """Check that a part is made again from its parameters, and from its string if it has a name."""
    _equal(type(part)(**part.parameters()) == part, True, "Its parameters must make an equal part")
    if part.aliases and all(
        isinstance(value, (int, float, str)) for value in part.parameters().values()
    ):
        _equal(
            resolve(base, part.as_string(), "part") == part,
            True,
            "Its string must make an equal part",
        )


def _samples(n_columns: int, loss: PointwiseLoss | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples whose targets fit a loss, and depend on the first column."""
    X = np.random.default_rng(0).normal(size=(N, n_columns))
    y = X[:, 0] + 0.3 * np.sin(5.0 * X[:, -1])
    if loss is not None and (loss.classifies or loss.has_link):
        y = np.sign(y) if loss.classifies else np.round(np.exp(y))
    return X, y


def _solve(loss: PointwiseLoss, regularizer: Regularizer, n_columns: int, only: Any = None) -> int:
    """Check the solutions of all solvers, or of one, that accept a problem; return how many do.

    The problems have a kernel, or a group, for each column.
    """
    (X, y), solved = _samples(n_columns, loss), 0
    grams = PackedStack.from_grams(X.T[:, :, None] * X.T[:, None], np.float64)
    problems: list[tuple[type, Any]] = [(Solver, Problem(grams, y, loss, regularizer, 0.3))]
    with suppress(InputError):  # its prox may not be exact
        problems.append((DesignSolver, DesignProblem(as_design(X), y, loss, regularizer, 0.03)))
    for kind, problem in problems:
        values = []
        for solver in _of_family(kind) if only is None else [only] * isinstance(only, kind):
            with suppress(InputError):
                solver.check(problem)
                records: list[Any] = []
                solution = solver.solve(problem, TOL, on_iteration=records.append)
                certificate = certify(problem, solution.model, solution.certificate.rho)
                _holds(
                    certificate.proves(TOL),
                    f"{solver!r} must solve {problem} to {TOL}, not to {certificate}.",
                )
                _equal(
                    len(records),
                    len(solution.history),
                    "on_iteration must be called with each record",
                )
                again = solver.solve(problem, TOL, start=solution.start)
                _holds(
                    again.certificate.proves(TOL),
                    "A start must lead to a solution of a similar problem.",
                )
                values.append(certificate.primal)
        if values:
            _holds(
                max(values) <= min(values) + 2.0 * TOL * abs(max(values)),
                f"Optima of solvers differ: {values}.",
            )
        solved += len(values)
    return solved


#: A callback that must see every round, so that rounds run in Python.
_EVERY_ROUND = SimpleNamespace(on_round=lambda trainer, step: None)


def _learn_both_ways(estimator: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Check that an online estimator learns, and the same in compiled calls, if there are, as in
    Python rounds.
    """
    fastest = estimator.set_params(callbacks=()).fit(X, y).predict(X)
    in_python = estimator.set_params(callbacks=[_EVERY_ROUND]).fit(X, y).predict(X)
    _holds(np.isfinite(fastest).all(), f"{estimator} must predict numbers.")
    _holds(
        np.array_equal(fastest, in_python),
        "Compiled calls must learn what Python rounds learn, bit for bit.",
    )


def _fit_certified(estimator: Any, X: np.ndarray, y: np.ndarray) -> None:
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
    own, rng = regularizer, np.random.default_rng(0)
    _check_parameters(own, Regularizer)
    b, others = rng.exponential(size=n_groups) + 0.1, 3.0 * rng.normal(size=(200, n_groups))
    _equal(own.value(np.zeros(n_groups)), 0.0, "value() must be 0 at 0")
    if np.isfinite(own.value(b)):
        _equal(own.slopes(b), _slopes(own.value, b), "slopes() must be the derivatives of value()")
        _holds((own.slopes(b) >= 0).all(), "value() must increase")
        _equal(
            own.reciprocal_weights(b),
            own.slopes(b) / b,
            "reciprocal_weights() must be slopes() / norms",
        )
    if own.separable:
        parts = sum(own.value(b[k] * e) for k, e in enumerate(np.eye(n_groups)))
        _equal(own.value(b), parts, "A separable value() must be a sum over groups")
        _equal(
            own.curvatures(b),
            np.diag(_slopes(own.slopes, b)),
            "curvatures() must be derivatives of slopes()",
            1e-3,
        )
        _equal(
            own.slopes(np.zeros(n_groups)).min(),
            own.slope_at_zero,
            "slope_at_zero must be slopes() at 0",
        )
    if own.elastic is not None:
        linear, quadratic = own.elastic
        _equal(
            own.value(b), linear * b.sum() + 0.5 * quadratic * b @ b, "elastic must give value()"
        )
    small = np.append(np.full(n_groups - 1, 1e-9), 20.0)
    _equal(
        own.is_sparse,
        (own.prox(small, 1.0) == 0.0).any(),
        "is_sparse must say whether prox() sends norms to 0",
    )
    _check_prox(own, 3.0 * b, others)
    for norms in (3.0 * b, small, np.zeros(n_groups)):
        _check_compiled_steps(own, norms)
    if own.exact:
        for other in others:
            scaled = own.dual_scale(other) * other
            _holds(
                np.isfinite(own.conjugate(scaled)),
                f"conjugate() must be finite at {scaled}, from dual_scale().",
            )
            gap = own.value(np.abs(b)) + own.conjugate(other) - b @ other
            _holds(
                gap >= -1e-6,
                f"conjugate() must be at least y'b - value(), "
                f"not {own.conjugate(other)} at {other}.",
            )
    if own.smooth_conjugate:
        expected = _slopes(own.conjugate, b)
        _equal(
            own.conjugate_gradient(b), expected, "conjugate_gradient() must be its derivative", 1e-4
        )
        expected = np.diag(_slopes(own.conjugate_gradient, b))
        _equal(
            own.conjugate_curvature(b),
            expected,
            "conjugate_curvature() must be its second derivative",
            1e-3,
        )
    if own.least_at_one_group:
        shares = np.abs(others) / np.linalg.norm(others, axis=1, keepdims=True)
        least = min(own.value(e) for e in np.eye(n_groups))
        _holds(all(own.value(x) >= least - 1e-9 for x in shares), "least_at_one_group must hold.")
    _solve(Squared(), own, n_groups)
    kernels = {f"{k}": f"linear:on={k}" for k in range(n_groups)}
    _learn_both_ways(
        omkl.OnlineMKLRegressor(kernels, regularizer=own, random_state=0), *_samples(n_groups)
    )
    if own.separable:
        _fit_certified(omkl.GroupLasso(0.01, regularizer=own), *_samples(n_groups))
    if own.separable and not own.on_coordinates:
        _fit_certified(omkl.MKLRegressor(kernels, regularizer=own, C=1.0), *_samples(n_groups))


def _check_prox(own: Regularizer, start: np.ndarray, others: np.ndarray) -> None:
    if np.isfinite(own.value(start)):
        _equal(own.prox(start, 0.0), start, "prox() with step 0 must be the identity")
    for step in (0.3, 2.0):
        moved = own.prox(start, step)
        _holds((moved >= 0.0).all() and (moved <= start).all(), "prox() must shrink.")
        _equal(own.prox(-start, step), -moved, "prox() must keep signs")
        if not own.exact:
            continue
        value = own.value(moved)
        for other in np.abs([*others, *(moved + 1e-3 * others)]):
            # strong convexity: the minimum is lower by half the squared distance
            excess = step * (own.value(other) - value) + (moved - start) @ (other - moved)
            _holds(
                excess >= -1e-7 * (1.0 + value),
                f"prox() must be the minimizer, not {moved} of {start}.",
            )
        dual = (1.0 - 1e-8) * (start - moved) / step
        _equal(
            value + own.conjugate(dual), moved @ dual, "conjugate() must be attained at the prox"
        )
        if own.differentiable_prox:
            found, coupling = np.diag(own.prox_slope(start, step)), own.prox_coupling(start, step)
            found = found if coupling is None else found - np.outer(coupling, coupling)
            expected = _slopes(lambda x, t=step: own.prox(x, t), start)
            _equal(
                found,
                expected,
                "prox_slope() and prox_coupling() must be the derivatives of prox()",
                1e-4,
            )


def _check_compiled_steps(regularizer: Regularizer, norms: np.ndarray) -> None:
    """Check that the compiled functions of proximal steps on norms, if it brings some, compute its
    prox.
    """
    for term in regularizer.terms():
        proximal_steps = term.compiled_steps()
        if term.on_coordinates or proximal_steps is None:
            continue
        for proximal_step in proximal_steps:
            signatures.PROX.address_of(proximal_step.function)
        for step in (0.0, 0.3, 2.0):
            # its contents are nobody's
            moved, memory = (norms.copy(), np.full((2, len(norms)), np.nan))
            for proximal_step in proximal_steps:
                proximal_step.take(moved, step, memory)
            _equal(
                moved,
                term.prox(norms, step),
                f"The compiled function must be prox(), at step {step}",
                1e-9,
            )


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
            _learn_both_ways(
                omkl.OnlineMKLClassifier(loss=loss, regularizer="block1", random_state=0),
                X,
                classes,
            )
        return
    _check_parameters(loss, PointwiseLoss)
    X, y = _samples(3, loss)
    z, others = X[:, 1], 4.0 * X[:, 2]
    for points in (z, others, 30.0 * z):
        _check_compiled_number(loss, y, points)
    values, gradient = loss.value(y, z), loss.gradient(y, z)
    _holds((values >= 0.0).all(), "value() must be at least 0.")
    tangent = values + gradient * (others - z)
    _holds((loss.value(y, others) >= tangent - 1e-9).all(), "gradient() must be a subgradient.")
    grid = np.linspace(-3.0, 3.0, 600_001)
    jumps = np.diff(loss.gradient(np.full(len(grid), y[0]), grid))
    _equal(loss.has_kink, jumps.max() > 0.1, "has_kink must say whether gradient() jumps")
    steepest = np.inf if loss.has_kink else jumps.max() / 1e-5
    _holds(
        steepest <= loss.curvature * (1.0 + 1e-6),
        f"curvature must bound the second derivative {steepest}.",
    )
    same = not loss.classifies and np.allclose(loss.value(y + 2.0, z + 2.0), values)
    _equal(
        loss.shift_invariant and not same,
        False,
        "shift_invariant must say whether errors alone matter",
    )
    (low, high), rho = loss.domain(y), -gradient
    _holds(((low <= rho) & (rho <= high)).all(), "domain() must contain all gradients.")
    _equal(
        values + loss.conjugate(y, rho),
        -rho * z,
        "value() and conjugate() must add up to -rho z at the gradient",
    )
    inside = 0.5 * rho + 0.5 * np.clip(0.1 * others, np.maximum(low, -2.0), np.minimum(high, 2.0))
    slack = loss.conjugate(y, inside) + loss.value(y, others) + inside * others
    _holds((slack >= -1e-6).all(), "conjugate() must be at least -rho z - value().")
    inside = inside[
        keep := (np.abs(inside) > 1e-3) & (inside - low > 1e-3) & (high - inside > 1e-3)
    ]
    for found, function, name in (
        (loss.conjugate_gradient, loss.conjugate, "conjugate_gradient"),
        (loss.conjugate_curvature, loss.conjugate_gradient, "conjugate_curvature"),
    ):
        rise = function(y[keep], inside + WIDTH) - function(y[keep], inside - WIDTH)
        _equal(found(y[keep], inside), rise / (2 * WIDTH), f"{name}() must be a derivative", 2e-3)
    for bound, beyond in ((low, -1e-3), (high, 1e-3)):
        own = np.isfinite(bound)
        outside = loss.conjugate(y[own], bound[own] + beyond)
        _holds(np.isinf(outside).all(), "domain() must be that of conjugate().")
    for regularizer in (L21(), SquaredL21()):
        _solve(loss, regularizer, 3)
    if loss.classifies:
        _fit_certified(omkl.MKLClassifier(["linear"], loss=loss, regularizer="mkl", C=1.0), X, y)
        _learn_both_ways(
            omkl.OnlineMKLClassifier(loss=loss, regularizer="block1", random_state=0), X, y
        )
        return
    _fit_certified(omkl.GroupLasso(0.01, loss=loss), X, y)
    if not loss.has_link:
        _fit_certified(omkl.MKLRegressor(["linear"], loss=loss, regularizer="mkl", C=1.0), X, y)
        _learn_both_ways(
            omkl.OnlineMKLRegressor(loss=loss, regularizer="block1", random_state=0), X, y
        )


def _check_compiled_number(loss: PointwiseLoss, y: np.ndarray, z: np.ndarray) -> None:
    """Check that the compiled function of a loss of numbers, if it brings one, is its value and
    gradient.
    """
    if loss.compiled is None:
        return
    function, parameters = function_and_parameters(loss)
    signatures.LOSS_OF_NUMBER.address_of(function)
    found = [
        function(target, prediction, parameters)
        for target, prediction in zip(y.tolist(), z.tolist())
    ]
    values, slopes = np.array(found).T
    _equal(values, loss.value(y, z), "The compiled function must return value()", 1e-9)
    _equal(
        slopes, loss.gradient(y, z), "The compiled function must return gradient() as well", 1e-9
    )
    _holds(
        np.isnan(function(y.item(0), np.nan, parameters)[0]),
        "The compiled function must be nan at nan, where training stops.",
    )


def _drawn(structure: Structure, size: int, seed: int) -> Potentials:
    rng = np.random.default_rng(seed)
    return map_arrays(lambda array: rng.normal(size=array.shape), structure.zeros(size))


def _check_structured_loss(loss: StructuredLoss, structure: Structure, size: int) -> None:
    """Check value and gradient of a loss on a structure against each other, at several points."""
    points = [_drawn(structure, size, seed) for seed in range(6)]
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
    """Check that the compiled functions of a loss and of a structure, if both bring some, are their
    methods.
    """
    loss_of = LossFunction(loss, structure)
    if not loss_of.is_compiled or not structure.is_compiled_for(potentials):
        return
    signatures.LOSS_OF_LABELS.address_of(loss_of.function)
    _check_calls(loss_of, potentials, gold)
    value, gradient = loss_of(potentials, gold)
    expected, slopes = loss.value_and_gradient(structure, potentials, gold)
    loss_and_structure = f"{loss!r} and {type(structure).__name__}"
    promise = f"The compiled functions of {loss_and_structure} must give value and gradient"
    _equal(value, expected, promise, 1e-9)
    zero = map_arrays(np.zeros_like, potentials)
    for found, array in zip(arrays_of(gradient or zero), arrays_of(slopes or zero)):
        _equal(found, array, promise, 1e-9)


def _check_calls(loss_of: LossFunction, potentials: Potentials, gold: Output) -> None:
    """Check that ``calls`` of a loss names all functions of a structure that it calls.

    In training, the others have no address. Here they refuse to be called.
    """
    refusing = {name: function for name, function in UNNAMED.items() if name not in loss_of.calls}
    packed = loss_of.structure.packed(loss_of.calls, layout_of(potentials))
    packed.replace(**refusing)
    pairwise = pairs_of(potentials)
    loss_of.function(
        packed.address,
        potentials.unary,
        pairwise,
        np.array(gold, dtype=np.int64, ndmin=1),
        loss_of.parameters,
        np.empty_like(potentials.unary),
        np.empty_like(pairwise),
    )


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
    own, given = structure, outputs is not None
    drawn = (
        [own.decode(_drawn(own, size, seed)) for seed in range(60)] if outputs is None else outputs
    )
    for seed in range(5):
        potentials = _drawn(own, size, seed)
        scores = np.array([own.score(potentials, output) for output in drawn])
        best, gold = own.decode(potentials), drawn[seed % len(drawn)]
        _holds(
            own.score(potentials, best) >= scores.max() - 1e-9,
            "decode() must find the highest score.",
        )
        _equal(
            own.score(potentials, gold),
            inner_product(potentials, own.indicator(gold)),
            "score() must sum parts",
        )
        _equal(own.cost(gold, gold), 0.0, "The cost of the gold output must be 0")
        costly = [score + 2.0 * own.cost(gold, output) for score, output in zip(scores, drawn)]
        found = own.loss_augmented(potentials, gold, 2.0)
        value = own.score(potentials, found) + 2.0 * own.cost(gold, found)
        _holds(value >= max(costly) - 1e-9, "loss_augmented() must maximize score plus cost.")
        expected = own.score(potentials, best) - own.score(potentials, gold)
        _equal(
            own.difference(potentials, best, gold)[0],
            expected,
            "difference() must be that of scores",
        )
        if type(own).marginals is Structure.marginals:
            continue
        log_partition, marginals = own.marginals(potentials)
        total = np.logaddexp.reduce(scores) if given else scores.max()
        _holds(log_partition >= total - 1e-9, "marginals() must sum over all outputs.")
        _equal(
            max(log_partition - total, 0.0) * given,
            0.0,
            "marginals() must sum over these outputs alone",
        )
        for array, found in zip(arrays_of(potentials), arrays_of(marginals)):
            if not array.size:
                continue
            index = np.unravel_index(int(np.argmax(np.abs(found))), found.shape)
            ends = []
            for move in (WIDTH, -WIDTH):
                array[index] += move
                ends.append(own.marginals(potentials)[0])
                array[index] -= move
            _equal(
                found[index],
                (ends[0] - ends[1]) / (2 * WIDTH),
                "marginals() must be derivatives of log Z",
                1e-4,
            )
    of_outputs: list[StructuredLoss] = [StructuredHinge(), losses.Perceptron()]
    if type(own).marginals is not Structure.marginals:
        of_outputs += [CRF(), losses.SoftmaxMargin()]
    for loss in of_outputs:
        _check_structured_loss(loss, own, size)


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

    def trainer_of(own: Bank) -> OnlineTrainer:
        options: Any = {"lambda_": 0.05, "schedule": InverseSqrt(0.5), "average": UniformAverage()}
        return OnlineTrainer([own], structure, StructuredHinge(), SquaredL21(), **options)

    trainer, total, x = trainer_of(bank), structure.zeros(len(examples[0][0])), examples[0][0]
    for round in range(1, 3 * len(examples) + 1):
        trainer.update(*examples[round % len(examples)])
        total = map_arrays(np.add, total, trainer.potentials(x))
        norms = trainer.norms.copy()
        trainer.recompute_norms()
        _equal(norms, trainer.norms, "step() and apply_events() must keep norms exact", 1e-4)
    average = trainer.predictor().potentials(x)
    for found, array in zip(arrays_of(average), arrays_of(total)):
        _equal(found, array / round, "averaged() must be the mean of all rounds", 1e-4)
    _check_functions_of_a_bank(bank, x, average)
    arguments, options = bank.made_with
    again = trainer_of(type(bank)(*arguments, **options))
    again.load_state(trainer.state())
    for own in (trainer, again):
        own.update(*examples[0])
    for found, array in zip(arrays_of(again.potentials(x)), arrays_of(trainer.potentials(x))):
        _holds(
            np.array_equal(found, array),
            "A bank that has loaded a state() must go on the same, bit for bit.",
        )


def _check_functions_of_a_bank(bank: Bank, x: Any, average: Potentials) -> None:
    """Check what examining parts call, and the signatures of compiled functions."""
    averaged = map_arrays(np.zeros_like, average)
    bank.add_averaged_potentials(x, averaged)
    for found, expected in zip(arrays_of(averaged), arrays_of(average)):
        _equal(found, expected, "add_averaged_potentials() must add those of averaged()")
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
    X = np.random.default_rng(0).random((N, 4)) if X is None else X
    _check_parameters(kernel, Kernel)
    fitted = kernel.fit(X)
    matrix, view = fitted(X), fitted.view(X)
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
    pairs = product(_of_family(PointwiseLoss), _of_family(Regularizer))
    _holds(
        sum([_solve(*pair, 3, solver) for pair in pairs]),
        "It must accept some loss and some regularizer.",
    )


def _of_family(base: type[Component]) -> list[Any]:
    """Return a part for each class with names whose arguments all have defaults."""
    named = [
        cls
        for cls in family(base)
        if vars(cls).get("aliases") and cls.__module__.startswith("omkl.")
    ]
    return [
        cls() for cls in named if all(p.default is not p.empty for p in parameters_of(cls).values())
    ]
