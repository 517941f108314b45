"""The bank protocol: banks store the parameters of groups."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from omkl._components import Compilable
from omkl._pointers import Layout, Packed
from omkl.exceptions import InputError
from omkl.groups.group_state import GroupState, GroupStateView, Mixture
from omkl.groups.tokens import Tokens
from omkl.kernels.base import Kernel
from omkl.signatures import BankFunctions
from omkl.structures.base import Potentials, Structure, inner_product, map_arrays, pairs_of

#: An encoded input with a length for the banks of a model: a Span, an ArcSentence, or a
#: user-defined type.
Input: TypeAlias = Any
#: Last argument of compiled steps: the step of this round, or one that was postponed.
NOW, POSTPONED = False, True
#: Kind of structure of a guided input.
OwnStructure = TypeVar("OwnStructure", bound=Structure)


class GuidedInput(ABC, Generic[OwnStructure]):
    """An input with potentials or constraints from another model."""

    __slots__ = ()

    @abstractmethod
    def initial_potentials(self, structure: OwnStructure) -> Potentials:
        """Return the potentials of the other model."""


def initial_potentials(structure: Structure, x: Input) -> Potentials:
    """Return zeros, or the potentials of another model for a guided input.

    Parameters
    ----------
    structure : Structure
    x : Span, ArcSentence or similar
    """
    if isinstance(x, GuidedInput):
        return x.initial_potentials(structure)
    return structure.zeros(len(x))


class FrozenGroups(ABC):
    """Base class of averaged groups for prediction; groups of scale 0 are not computed."""

    names: list[str]
    #: Set by the group state of a predictor. If None, all groups are in use.
    group_state: GroupStateView | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(self.group_nbytes().sum())

    @abstractmethod
    def group_nbytes(self) -> np.ndarray:
        """Return the bytes of each group, (p,)."""

    def _in_use(self, k: int) -> bool:
        """Check whether a group is part of the model."""
        return self.group_state is None or self.group_state.scales[k] != 0.0


@dataclass(slots=True, eq=False)
class FrozenGroup:
    """An averaged group of a kernel, with weights of its features or of its support vectors."""

    index: int
    kernel: Kernel
    view: str
    weights: np.ndarray


class Bank(Compilable, ABC):
    r"""Groups that share one representation, for example 20 feature templates or three kernels.

    A bank stores directions :math:`v_k`; the parameters are :math:`\theta_k = s_k v_k`, with scales
    in its slice of the :class:`~omkl.groups.GroupState`. It adds its potentials, moves :math:`v_k`
    along a gradient, and keeps :math:`\|v_k\|^2` in the group state exact. It is independent of
    learning rate, regularizer and structure.

    Running average: let :math:`a_k` be the sum of :math:`w_t s_k` over the rounds, and :math:`u_k`
    a running sum. The averaged parameters are :math:`(a_k v_k + u_k) / \sum_t w_t`. Before
    :math:`v_k` is multiplied, because its group reached zero or its scale left the range of good
    precision, :math:`a_k v_k` is added to :math:`u_k` and :math:`a_k` is reset to 0. So :math:`a_k`
    stays bounded.

    Subclasses set ``names``, ``averaging`` and ``_sums`` (the array of all :math:`u_k`), implement
    the abstract methods, and declare their optional methods in ``abilities``.
    """

    #: Compiled functions of the bank's part in a round; None if only its methods define it.
    compiled: Any = None
    #: Optional methods: "mix" (:meth:`mix`), "grow" (:meth:`grow_outputs`), "coordinates"
    #: (:meth:`coordinates` and :meth:`shrink_coordinates`), "condense" (:meth:`condensed`), "watch"
    #: (:meth:`add_both`).
    abilities: ClassVar[frozenset[str]] = frozenset()
    names: list[str]
    #: Whether to keep running sums; otherwise the average is the current model.
    averaging: bool
    #: Slice of the group state for the groups of this bank, set by the group state.
    group_state: GroupStateView
    #: Whether the bank was loaded from a file for prediction only.
    frozen = False
    #: Arguments of the constructor, by position and by name.
    made_with: tuple[tuple, dict[str, Any]]
    _sums: np.ndarray

    def __new__(cls, *arguments: object, **options: object) -> "Bank":
        """Record the arguments, from which model files recreate an untrained bank."""
        bank = super().__new__(cls)
        bank.made_with = arguments, options
        return bank

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        return sum(array.nbytes for array in self.state().values())

    @property
    def rows_at_once(self) -> float:
        """Maximum number of tokens in a call of the compiled driver."""
        return np.inf

    @abstractmethod
    def add_potentials(self, x: Input, potentials: Potentials) -> None:
        """Add the potentials of this bank's groups in place.

        Parameters
        ----------
        x : Span, ArcSentence or similar
        potentials : Potentials
        """

    @abstractmethod
    def step(self, x: Input, gradient: Potentials) -> None:
        r"""Take a gradient step, :math:`v_k \leftarrow v_k - \eta_k g_k`.

        The rates are those of the group state. Set :math:`\|v_k\|^2` and :math:`\|g_k\|^2` in the
        group state. For an empty group :math:`v_k` may stay unchanged until :meth:`apply_events`
        activates the group.

        Parameters
        ----------
        x : Span, ArcSentence or similar
        gradient : Potentials
            Gradient of the loss with respect to the potentials of ``x``.
        """

    def apply_events(self, x: Input, gradient: Potentials | None) -> None:
        """Apply the activations, deactivations and scale folds after a proximal step.

        Parameters
        ----------
        x : Span, ArcSentence or similar, or None
        gradient : Potentials or None
            Gradient of the latest step; both are None if no step was postponed.
        """
        group_state = self.group_state
        for k in np.flatnonzero(group_state.deactivated).tolist():
            self._fold(k, 0.0)
        if gradient is not None and group_state.activated.any():
            self._activate(x, gradient)
        for k in group_state.out_of_range():
            factor = group_state.scales[k]
            group_state.scales[k] = 1.0
            group_state.square_norms[k] *= factor * factor
            self._fold(k, factor)

    @abstractmethod
    def recompute_norms(self) -> None:
        """Recompute ``||v_k||^2``, because the recursion accumulates rounding errors."""

    def discount(self, factor: float) -> None:
        """Multiply the running sums of the average.

        Parameters
        ----------
        factor : float
        """
        self._sums *= factor

    def release(self) -> "Bank":
        """Return a bank of the same groups that scores any input, not only the training set."""
        return self

    def forget_input(self) -> None:
        """Clear the cache of the latest input."""

    def restart(self) -> None:
        """Set all parameters to zero and reset the average."""
        for k in range(len(self.names)):
            self._scale_group(k, 0.0)
        self.discount(0.0)

    @abstractmethod
    def averaged(self) -> Any:
        """Return a copy with averaged parameters, which adds potentials and recomputes norms."""

    def add_averaged_potentials(self, x: Input, potentials: Potentials) -> None:
        """Add the potentials of :meth:`averaged`, bit for bit; see :meth:`add_potentials`."""
        frozen = self.averaged()
        if not isinstance(frozen, FrozenGroups):  # all of these are in use
            GroupState([frozen]).scales.fill(1.0)
        frozen.add_potentials(x, potentials)

    def add_both(self, x: Input, potentials: Potentials, average: Potentials) -> None:
        """Add the potentials of the current and of the averaged model. Ability "watch".

        A bank may do so in less time than two calls take.
        """
        self.add_potentials(x, potentials)
        self.add_averaged_potentials(x, average)

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays for model files and checkpoints, by name."""

    @abstractmethod
    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`; raise an InputError if they do not fit this bank.

        Parameters
        ----------
        state : dict of str to array
        """

    def condensed(self) -> dict[str, np.ndarray]:
        """Return the :meth:`state` of a bank with the averaged parameters. Ability "condense".

        Its scales are 1, and it has no average.
        """
        raise NotImplementedError

    def mix(self, states: Sequence[dict[str, np.ndarray]], mixture: Mixture) -> None:
        r"""Set the parameters to a mix of shards that started from this bank. Ability "mix".

        The group state has set the scales to 1. The squared norms are recomputed.

        Parameters
        ----------
        states : sequence of dict
            The :meth:`state` of the bank of each shard.
        mixture : Mixture
            Weights of the shards for these groups.
        """

    def grow_outputs(self, n_outputs: int) -> None:
        """Add labels with weights of zero. Ability "grow".

        Parameters
        ----------
        n_outputs : int
            The new number of labels.
        """

    def coordinates(self) -> np.ndarray:
        """Return the parameters as a vector. Ability "coordinates"."""
        raise NotImplementedError

    def shrink_coordinates(self, step: float) -> None:
        """Reduce the magnitude of all parameters by ``step``, down to 0. Ability "coordinates".

        Parameters
        ----------
        step : float
        """

    def inner_products(
        self, x: Input, gradient: Potentials, totals: np.ndarray | None
    ) -> np.ndarray:
        """Return the inner product of each group's potentials, by ``v_k``, with a gradient, (p,).

        Parameters
        ----------
        x : Span, ArcSentence or similar
        gradient : Potentials
        totals : array of shape (p, K), or None for potentials that are not unary
            Updated in place: the unary potentials of each group, summed over the tokens, are added.
        """
        scales = self.group_state.scales
        scales_before = scales.copy()
        products = np.zeros(len(self.names))
        for k in range(len(products)):
            scales[:] = 0.0
            scales[k] = 1.0
            potentials = map_arrays(np.zeros_like, gradient)
            self.add_potentials(x, potentials)
            products[k] = inner_product(potentials, gradient)
            if totals is not None:
                totals[k] += potentials.unary.sum(axis=0)
        scales[:] = scales_before
        return products

    def _check_fit(self, fits: bool) -> None:
        """Raise an InputError unless the arrays of a state fit."""
        if not fits:
            raise InputError(
                f"The arrays of the group {self.names[0]!r} do not fit the model, or each other."
            )

    def _fold(self, k: int, factor: float) -> None:
        """Multiply ``v_k``, and reset the weight of group k in the average."""
        self._scale_group(k, factor)
        self.group_state.averages[k] = 0.0

    @abstractmethod
    def _scale_group(self, k: int, factor: float) -> None:
        """Add ``a_k v_k`` to the running sums of group k, and multiply its ``v_k``.

        A factor of 0 empties the group.
        """

    def _activate(self, x: Input, gradient: Potentials) -> None:
        """Apply the postponed step to empty groups that become active."""


class CompiledBank(Bank):
    """Base of banks with compiled functions, which their methods and the compiled driver call.

    Subclasses set ``functions``, and define :meth:`arrays`,
    :meth:`input_of` and :meth:`inputs_of`.
    """

    functions: BankFunctions
    #: Layout of :meth:`arrays`.
    layout: ClassVar[Layout]
    #: Kind of pairs of labels whose edges the bank reads; None if it reads the tokens themselves.
    kind_of_edges: str | None = None
    #: Whether the compiled average has the bits of :meth:`averaged`.
    average_is_exact: ClassVar[bool] = False
    _packed: Packed | None = None

    @abstractmethod
    def arrays(self) -> Any:
        """Return the named tuple of the arrays that the functions change."""

    @abstractmethod
    def input_of(self, x: Input) -> tuple[Packed, int]:
        """Return the arrays of an input, and the place of its first token there."""

    @abstractmethod
    def inputs_of(self, tokens: Tokens, chosen: np.ndarray) -> tuple[Packed, bool]:
        """Return the arrays of the inputs of many rounds.

        Parameters
        ----------
        tokens : Tokens
        chosen : int array
            The tokens of the rounds, in their order.

        Returns
        -------
        inputs : Packed
        covers_all : bool
            Whether the inputs are all ``tokens``, not only the chosen ones.
        """

    def end_pass(self) -> None:
        """Take in what a call of the compiled driver has changed."""

    def packed(self) -> Packed:
        """Return the arrays for compiled functions; hold it as long as its address is in use."""
        arrays = self.arrays()
        packed = self._packed
        if packed is None or not packed.holds(arrays):
            self._packed = packed = self.layout.pack(arrays)
        return packed

    def _call(
        self, function: Callable[..., None], x: Input, *arguments: np.ndarray | float | None
    ) -> None:
        """Call a compiled function with the arrays of this bank and those of an input."""
        inputs, at = self.input_of(x)
        packed = self.packed()
        function(packed.address, inputs.address, at, *arguments)

    def add_potentials(self, x: Input, potentials: Potentials) -> None:
        self._call(self.functions.scores, x, potentials.unary, pairs_of(potentials))

    def add_averaged_potentials(self, x: Input, potentials: Potentials) -> None:
        if self.average_is_exact:
            self._add_compiled_average(x, potentials)
        else:
            super().add_averaged_potentials(x, potentials)

    def add_both(self, x: Input, potentials: Potentials, average: Potentials) -> None:
        # without the bits of the averaged bank, which takes longer
        self.add_potentials(x, potentials)
        self._add_compiled_average(x, average)

    def _add_compiled_average(self, x: Input, potentials: Potentials) -> None:
        """Add the potentials of the averaged model, in the compiled function."""
        factors, total = self.group_state.factors(self.averaging and len(self._sums) > 0)
        pairs = pairs_of(potentials)
        self._call(self.functions.average, x, factors, total, potentials.unary, pairs)

    def step(self, x: Input, gradient: Potentials) -> None:
        self._call(self.functions.step, x, gradient.unary, pairs_of(gradient), NOW)

    def _activate(self, x: Input, gradient: Potentials) -> None:
        self._call(self.functions.step, x, gradient.unary, pairs_of(gradient), POSTPONED)

    def inner_products(
        self, x: Input, gradient: Potentials, totals: np.ndarray | None
    ) -> np.ndarray:
        products = np.zeros(len(self.names))
        pairs = pairs_of(gradient)
        self._call(self.functions.slopes, x, gradient.unary, pairs, products, totals)
        return products

    def _scale_group(self, k: int, factor: float) -> None:
        self.functions.fold(self.packed().address, k, factor)


def check_ability(banks: Iterable[Bank], ability: str, purpose: str, remedy: str) -> None:
    """Raise an InputError unless all banks have an ability.

    Parameters
    ----------
    banks : iterable of Bank
    ability : str
        See :attr:`Bank.abilities`.
    purpose, remedy : str
        First and last part of the message: the use of the ability, and the remedy.
    """
    for bank in banks:
        if ability not in bank.abilities:
            raise InputError(
                f"{purpose}, and the group {bank.names[0]!r} cannot: {type(bank).__name__} does "
                f"not have the ability {ability!r}; {remedy}."
            )


def lengthened(array: np.ndarray, length: int, axis: int = 0, fill: int = 0) -> np.ndarray:
    """Return a copy of an array, extended along an axis by entries of the value ``fill``."""
    shape = list(array.shape)
    shape[axis] = length
    longer = np.zeros(shape, array.dtype)
    if fill != 0:  # zeros that are never written take no memory
        longer[:] = fill
    longer[tuple(map(slice, array.shape))] = array
    return longer


class Piece(NamedTuple):
    """Contribution of one feature, support vector, transition or arc to a margin."""

    #: "feature", "part", "support", "labels", "arc", "grandparent" or "sibling".
    kind: str
    group: str
    #: Identifies the piece: id of a feature, number of a part of a kernel with explicit features,
    #: index and row of a support vector, codes of consecutive labels, or (head, modifier).
    key: Any
    #: Token of the feature, from 0, or modifier of the arc, from 1.
    at: int | None
    value: float


class Contributions(NamedTuple):
    """Contributions of a model to the margin of one output over another."""

    #: Contribution of each group; the contributions sum to the margin.
    groups: dict[str, float]
    #: Contributions of features, support vectors, transitions and arcs.
    pieces: list[Piece]
