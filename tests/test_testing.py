"""Every part of the library passes its check, and each check finds mistakes."""

import numba
import numpy as np
import pytest

from omkl._components import family
from omkl.batch import DAL, IST, DesignSolver, Solver, Spicy
from omkl.exceptions import InputError
from omkl.groups import InterceptBank, TransitionBank
from omkl.kernels import Gaussian, Kernel, Nystrom
from omkl.losses import (
    Logistic,
    Perceptron,
    PointwiseLoss,
    SoftmaxMargin,
    Squared,
    StructuredHinge,
    StructuredLoss,
)
from omkl.regularizers import (
    L21,
    ElasticNet,
    ElasticNetWeights,
    L21Ball,
    LqNorm,
    OverlappingGroups,
    Regularizer,
    Ridge,
    SparseGroup,
    SquaredL21,
    SquaredLq,
    TreeGroups,
    WeightedSquaredL21,
)
from omkl.signatures import LOSS_OF_NUMBER, PROX
from omkl.structures import Binary, Chain, Multiclass, NonProjectiveTree, ProjectiveTree
from omkl.testing import (
    check_bank,
    check_kernel,
    check_loss,
    check_regularizer,
    check_solver,
    check_structure,
)

from .groups.test_step_for_step import KINDS, K, Problem, banks_of


class PseudoHuber(Regularizer):
    """The example of the base class."""

    separable = True

    def value(self, norms):
        return float(np.sum(np.hypot(1.0, norms) - 1.0))

    def slopes(self, norms):
        return norms / np.hypot(1.0, norms)


class LogCosh(PointwiseLoss):
    """log cosh(y - z), without a conjugate."""

    def value(self, y, z):
        return np.logaddexp(y - z, z - y) - np.log(2.0)

    def gradient(self, y, z):
        return -np.tanh(y - z)


@numba.njit(LOSS_OF_NUMBER.numba)
def log_cosh(y, z, parameters):
    error = abs(z - y)
    return error + np.log1p(np.exp(-2.0 * error)) - np.log(2.0), np.tanh(z - y)


class CompiledLogCosh(LogCosh):
    compiled = log_cosh, np.empty(0)


@numba.njit(PROX.numba)
def shrink(norms, step, parameters, memory):
    for k in range(len(norms)):
        norms[k] = max(norms[k] - step * parameters[0], 0.0)


class CompiledLasso(Regularizer):
    """Twice the sum of the norms."""

    compiled = shrink, np.array([2.0])
    separable = True

    def value(self, norms):
        return 2.0 * float(np.sum(norms))

    def slopes(self, norms):
        return np.full(np.shape(norms), 2.0)


REGULARIZERS = [
    PseudoHuber(), CompiledLasso(), 0.5 * CompiledLasso() + Ridge(),
    L21(), 0.3 * ElasticNet(0.4), Ridge(), LqNorm(1.2), LqNorm(3), SparseGroup(0.4), L21Ball(2.0),
    SquaredL21(), WeightedSquaredL21([1.0, 0.5, 0.2, 2.0, 1.0]), SquaredLq(1.5),
    ElasticNetWeights(0.4), TreeGroups([[0, 1, 2, 3, 4], [0, 1], [2, 3, 4]]),
    OverlappingGroups([[0, 1, 2], [2, 3], [3, 4]], exact=True),
    SquaredL21() + 0.3 * ElasticNet(0.3), LqNorm(1.5) + 2 * LqNorm(3),
    OverlappingGroups([[0, 1, 2], [2, 3, 4]]),
]  # fmt: skip


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
def test_regularizers_keep_their_promises(regularizer):
    check_regularizer(regularizer)


def parts_of(*bases):
    """Return a part for every name of a family."""
    return [
        cls(**presets)
        for base in bases
        for cls in family(base)
        for presets in own_aliases(cls).values()
    ]


def own_aliases(cls):
    return vars(cls).get("aliases", {}) if cls.__module__.startswith("omkl.") else {}


@pytest.mark.parametrize(
    "loss", [LogCosh(), CompiledLogCosh(), *parts_of(PointwiseLoss, StructuredLoss)], ids=repr
)
def test_losses_keep_their_promises(loss):
    check_loss(loss)


@pytest.mark.parametrize("solver", parts_of(Solver, DesignSolver), ids=repr)
def test_solvers_keep_their_promises(solver):
    check_solver(solver)


@pytest.mark.parametrize(
    "kernel", [*parts_of(Kernel), Nystrom(Gaussian(), 10), Gaussian(on=[0, 2])], ids=repr
)
def test_kernels_keep_their_promises(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize(
    ("structure", "size", "outputs"),
    [
        (Binary(), 1, [0, 1]),
        (Multiclass(3, costs=[[0, 1, 4], [2, 0, 1], [1, 1, 0]]), 1, range(3)),
        (Chain(2), 3, [np.array(labels) for labels in np.ndindex(2, 2, 2)]),
        (Chain(2, order=2), 3, [np.array(labels) for labels in np.ndindex(2, 2, 2)]),
        (Chain(3, linked=False), 2, None),
        (NonProjectiveTree(), 3, None),
        (ProjectiveTree(), 3, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_structures_keep_their_promises(structure, size, outputs):
    check_structure(structure, size, outputs)


def examples_of(problem, tokens):
    gold = [problem.gold[low:high] for low, high in zip(problem.offsets, problem.offsets[1:])]
    return [(tokens.sequence(s), gold[s]) for s in range(len(gold))]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mixed"])
def test_banks_keep_their_promises(kind):
    problem = Problem()
    banks, tokens = banks_of(kind, problem, averaging=True)
    check_bank(banks[0], examples_of(problem, tokens), Chain(K))


@pytest.mark.parametrize("make", [TransitionBank, InterceptBank])
def test_dense_banks_keep_their_promises(make):
    problem = Problem()
    check_bank(
        make(K, averaging=True),
        examples_of(problem, problem.tokens()),
        Chain(K),
    )


def changed(base, **attributes):
    """Return a class with other attributes or methods."""
    return type(f"Wrong{base.__name__}", (base,), attributes)


def too_large(name, factor=1.01):
    """Return a method whose result is too large."""
    return lambda self, *arguments: factor * getattr(super(type(self), self), name)(*arguments)


@numba.njit(LOSS_OF_NUMBER.numba)
def too_large_log_cosh(y, z, parameters):
    value, slope = log_cosh(y, z, parameters)
    return 1.01 * value, slope


@numba.njit(LOSS_OF_NUMBER.numba)
def too_steep_log_cosh(y, z, parameters):
    value, slope = log_cosh(y, z, parameters)
    return value, 1.01 * slope


@numba.njit(LOSS_OF_NUMBER.numba)
def log_cosh_without_nan(y, z, parameters):
    if np.isnan(z):
        return 0.0, 0.0
    return log_cosh(y, z, parameters)


@numba.njit(PROX.numba)
def shrink_too_far(norms, step, parameters, memory):
    shrink(norms, 1.01 * step, parameters, memory)


@numba.njit(PROX.numba)
def shrink_by_memory(norms, step, parameters, memory):
    memory[0] += parameters[0]
    shrink(norms, step, memory[0], memory)


@numba.njit(PROX.numba)
def shrink_and_forget(norms, step, parameters, memory):
    shrink(norms, step, parameters, memory)
    parameters[0] += 0.01


@numba.njit
def nothing_costs(structure, gold, labels):
    return 0.0


@numba.njit
def first_label_is_best(structure, unary, pairwise, gold, cost_weight, labels):
    labels[:] = 0
    return unary[0, 0]


def with_functions(base, **functions):
    """Return a class with other compiled functions."""
    return changed(base, compiled=base.compiled._replace(**functions))


WRONG_FUNCTIONS = {
    "the value of a loss": (
        check_loss,
        changed(CompiledLogCosh, compiled=(too_large_log_cosh, np.empty(0)))(),
    ),
    "the slope of a loss": (
        check_loss,
        changed(CompiledLogCosh, compiled=(too_steep_log_cosh, np.empty(0)))(),
    ),
    "a loss of nan": (
        check_loss,
        changed(CompiledLogCosh, compiled=(log_cosh_without_nan, np.empty(0)))(),
    ),
    "a prox": (
        check_regularizer,
        changed(CompiledLasso, compiled=(shrink_too_far, np.array([2.0])))(),
    ),
    "a parameter": (
        check_regularizer,
        changed(CompiledLasso, compiled=(shrink, np.array([2.02])))(),
    ),
    "a term": (
        check_regularizer,
        Ridge() + changed(CompiledLasso, compiled=(shrink, np.array([2.02])))(),
    ),
    "memory": (
        check_regularizer,
        changed(CompiledLasso, compiled=(shrink_by_memory, np.array([2.0])))(),
    ),
    "what stays": (
        check_regularizer,
        changed(CompiledLasso, compiled=(shrink_and_forget, np.array([2.0])))(),
    ),
    "a loss of labels": (
        check_loss,
        changed(StructuredHinge, compiled=Perceptron.compiled, aliases={})(),
    ),
    "a cost": (check_structure, with_functions(Multiclass, cost=nothing_costs)(3), 1, range(3)),
    "a decoder": (
        check_structure,
        with_functions(Multiclass, decode=first_label_is_best)(3),
        1,
        range(3),
    ),
}
WRONG = {
    "a separable function that is not": (check_regularizer, changed(SquaredL21, separable=True)()),
    "slopes": (check_regularizer, changed(PseudoHuber, slopes=too_large("slopes"))()),
    "a prox": (check_regularizer, changed(SquaredL21, prox=too_large("prox", 0.99))()),
    "a conjugate": (check_regularizer, changed(LqNorm, conjugate=too_large("conjugate"))()),
    "a derivative of a prox": (
        check_regularizer,
        changed(SquaredL21, prox_slope=too_large("prox_slope"))(),
    ),
    "a sparse function that is not": (check_regularizer, changed(Ridge, is_sparse=True)()),
    "a prox behind coefficients": (check_regularizer, changed(ElasticNet, elastic=(0.4, 0.5))(0.5)),
    "a gradient": (check_loss, changed(LogCosh, gradient=too_large("gradient"))()),
    "a kink that is not declared": (
        check_loss,
        changed(parts_of(PointwiseLoss)[0].__class__, has_kink=True)(),
    ),
    "a conjugate of a loss": (check_loss, changed(Squared, conjugate=too_large("conjugate"))()),
    "a domain": (check_loss, changed(Logistic, domain=too_large("domain", 2))()),
    "a curvature": (check_loss, changed(Squared, curvature=0.9)()),
    "a decoder": (
        check_structure,
        changed(Multiclass, decode=lambda self, potentials: 0)(3),
        1,
        range(3),
    ),
    "marginals": (
        check_structure,
        changed(Chain, marginals=lambda self, potentials: (9.0, potentials))(2),
        3,
    ),
    "a cost": (check_structure, changed(Binary, cost=lambda self, gold, predicted: 1.0)(), 1),
    "a kernel": (check_kernel, changed(Gaussian, raw=lambda self, pair: pair.squared_distances)()),
    "a diagonal": (
        check_kernel,
        changed(Gaussian, raw_diagonal=lambda self, X: 2.0 * np.ones(len(X)))(),
    ),
    "a solver": (
        check_solver,
        changed(Spicy, _search=lambda self, problem, monitor, start: stopped(problem))(),
    ),
}


def stopped(problem):
    """Return the start of a search."""
    return Spicy().solve(problem, max_iter=1)


@pytest.mark.parametrize("mistake", WRONG_FUNCTIONS)
def test_mistakes_of_compiled_functions_are_found(mistake):
    check, *arguments = WRONG_FUNCTIONS[mistake]
    with pytest.raises(AssertionError, match="compiled function"):
        check(*arguments)


def test_a_loss_that_calls_marginals_must_say_so():
    promises_none = changed(
        SoftmaxMargin, compiled=SoftmaxMargin.compiled, uses_marginals=False, aliases={}
    )
    with pytest.raises(AssertionError, match="`uses_marginals` must be True"):
        check_loss(promises_none())


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="functions have no types")
def test_compiled_functions_of_another_signature_are_refused():
    with pytest.raises(InputError, match=r"shrink must be UniTuple\(float64 x 2\).*but it takes"):
        check_loss(changed(CompiledLogCosh, compiled=(shrink, np.empty(0)))())
    with pytest.raises(InputError, match=r"log_cosh must be none\(norms"):
        check_regularizer(changed(CompiledLasso, compiled=(log_cosh, np.empty(0)))())


def test_parameters_of_compiled_functions_are_vectors():
    with pytest.raises(
        InputError, match=r"The parameters .* WrongCompiledLogCosh\(\) must be a contiguous float64"
    ):
        check_loss(changed(CompiledLogCosh, compiled=(log_cosh, np.zeros(1, dtype=int)))())
    with pytest.raises(
        InputError, match=r"WrongCompiledLasso\(\) must be a function and its parameters"
    ):
        check_regularizer(changed(CompiledLasso, compiled=shrink)())


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_found(mistake):
    check, *arguments = WRONG[mistake]
    with pytest.raises(AssertionError):
        check(*arguments)


@pytest.mark.parametrize(
    "mistake",
    [
        {"load_state": lambda self, state: None},
        {"discount": None, "averaged": TransitionBank.release},
        {"functions": TransitionBank.functions._replace(slopes=InterceptBank.functions.slopes)},
        {"functions": TransitionBank.functions._replace(average=InterceptBank.functions.average)},
    ],
    ids=["a state", "an average", "compiled slopes", "a compiled average"],
)
def test_mistakes_of_banks_are_found(mistake):
    problem = Problem()
    bank = changed(TransitionBank, **mistake)(K, averaging=True)
    with pytest.raises(AssertionError):
        check_bank(
            bank,
            examples_of(problem, problem.tokens()),
            Chain(K),
        )


def test_all_that_a_solver_misses_is_named_at_once():
    from omkl.batch import DesignProblem, as_design
    from omkl.losses import Hinge

    X = np.eye(4)
    problem = DesignProblem(
        as_design(X), np.array([1.0, -1.0, 1.0, -1.0]), Hinge(), SparseGroup(0.5), 0.1
    )
    with pytest.raises(
        InputError, match=r"'ist' needs a loss with a second derivative, and groups of positive"
    ):
        IST().check(problem)
    DAL().check(problem)
