"""Test of whether the averaged model lags behind a stream that changes."""

import logging
from collections.abc import Sized

import numpy as np

from omkl.groups.base import initial_potentials
from omkl.online.examiners import _jit_drift as jit
from omkl.online.rounds import Change, Examples, Learner, TrainerPart
from omkl.signatures import ExaminerFunctions
from omkl.structures.base import Output, Potentials, Structure
from omkl.structures.chain import Chain
from omkl.structures.multiclass import Binary, Multiclass, Scalar
from omkl.structures.trees.arc_factored import TreeStructure

logger = logging.getLogger("omkl")
# silent unless the program configures logging
logger.addHandler(logging.NullHandler())


class DriftTest(TrainerPart):
    r"""Test by betting of whether the averaged model lags behind the stream.

    After a change, the averaged model has a higher loss than before, and than the last iterate. On
    a new example, let :math:`d_t` be its loss minus that of the last iterate, divided by twice the
    mean size of earlier differences, and :math:`e_t` its loss minus its usual loss, divided by
    twice the mean size of earlier deviations, less the uncertainty of the usual loss; both are cut
    to [-1, 1]. While the distribution is fixed, the average is better than the last iterate, and
    becomes better than it was, so that :math:`E[d_t] \le 0` and :math:`E[e_t] \le 0` given the
    past, and then no bet on positive ones gains on average. Starting from wealth 1, the test bets
    fixed shares :math:`b_j` of it:

    .. math:: D_t = \frac15 \sum_{j=1}^5 \prod_{s=q}^t (1 + b_j d_s), \qquad
        E_t = \frac15 \sum_{j=1}^5 \prod_{s=r}^t (1 + b_j e_s)

    with q and r the comparisons after the last ones at which D, or E, was at most 1. It reports a
    change when both are at least 100. Each is an e-detector: as long as one of both expectations is
    at most 0, the expected number of comparisons up to the first report is at least 100, for any
    distribution (Shin et al.). A model that learns fast lags, but its loss does not rise; a model
    that learns noise gets worse, but so does the last iterate. One of eight examples is compared,
    and every one while :math:`E_t > 2`; this choice depends on the past only, so that the bound
    holds. No product is kept above 1,000, so that evidence which is not confirmed is soon lost.

    The usual loss is the mean over about 100 comparisons before r, at least 30, of losses that are
    cut likewise. Round r is an estimate of the time of the change. After a report, average and
    learning rates begin there.

    References
    ----------
    Shin, Ramdas, Rinaldo (2024), E-detectors: a nonparametric framework for sequential change
    detection.
    """

    saved = "numbers", "rows"
    functions = ExaminerFunctions(is_due=jit.is_due, look=None, compare=jit.compare)
    compiled = functions
    examines = "average"
    layout = jit.DRIFT

    def __init__(self) -> None:
        self.numbers = np.zeros(jit.N_NUMBERS)
        #: Number of rows, sequences or sentences of the stream before the present block.
        self.rows = 0
        #: Whether the test pauses, 0 or 1, (1,).
        self._pauses = np.zeros(1)
        self._average_loss: float | None = None

    def compiled_arrays(self, n_outputs: int) -> jit.DriftNumbers:
        return jit.DriftNumbers(self.numbers, self._pauses)

    def before_round(
        self, trainer: Learner, x: Sized, y: Output, weight: float
    ) -> Potentials | None:
        self._average_loss = None  # also if an error has ended the last round
        if not jit.is_due(self.address, trainer.round):
            return None
        potentials = initial_potentials(trainer.structure, x)
        average = initial_potentials(trainer.structure, x)
        for bank in trainer.banks:
            bank.add_both(x, potentials, average)
        self._average_loss = trainer.loss_function(average, y)[0]
        return potentials

    def after_round(self, trainer: Learner, loss: float) -> Change | None:
        average_loss = self._average_loss
        self._average_loss = None
        if average_loss is None:
            return None
        losses, squares = trainer.schedule.sums
        has_changed = jit.compare(
            self.address, average_loss, loss, trainer.round - 1, losses, squares
        )
        return self.change if has_changed else None

    @staticmethod
    def can_watch(trainer: Learner) -> bool:
        """Return whether a stream can be tested.

        There must be an average whose potentials can be computed in a round. In dual averaging, the
        model is proportional to the rate, which cannot restart.

        Parameters
        ----------
        trainer : OnlineTrainer
        """
        is_ready = trainer.average is not None and trainer.method.forgets
        return is_ready and all("watch" in bank.abilities for bank in trainer.banks)

    def joined(self, trainer: Learner) -> None:
        trainer.average_as_stream()

    @property
    def change(self) -> Change:  # type: ignore[override]
        """The change of the stream that was found."""
        start, losses, squares = self.numbers[jit.START : jit.USUAL].tolist()
        return Change(int(start), (losses, squares))

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        self.numbers[:] = 0.0

    def before_block(self, examples: Examples) -> None:
        # pause in a block that repeats rows for their weights: the last iterate has just learned
        # from such a row
        chosen = getattr(examples, "chosen", ())
        self._pauses[0] = 0.0
        if len(chosen) > 1:
            self._pauses[0] = float((chosen[1:] == chosen[:-1]).any())

    def report_change(self, trainer: Learner, examples: Examples, n_learned: int) -> int:
        rows_of_block = n_learned
        chosen = getattr(examples, "chosen", None)
        if chosen is not None:
            rows_of_block = int(chosen[n_learned - 1] + 1)
        row = self.rows + rows_of_block
        unit = unit_of(trainer.structure)
        logger.warning(
            "The averaged model lags behind the stream at %s %d: the average restarts.", unit, row
        )
        return row

    def after_block(self, examples: Examples) -> None:
        self.rows += getattr(examples, "n_inputs", len(examples))


def unit_of(structure: Structure) -> str:
    """Return the name of an example of a structure."""
    if isinstance(structure, (Binary, Multiclass, Scalar)):
        return "row"
    if isinstance(structure, Chain):
        return "sequence"
    if isinstance(structure, TreeStructure):
        return "sentence"
    return "example"
