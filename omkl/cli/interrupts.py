"""Signals: Ctrl-C ends training, and keeps what is learned; being terminated leaves no file half written."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Terminated(BaseException):
    """The process was asked to end, by SIGTERM or because its terminal is gone."""


@contextmanager
def terminating() -> Iterator[None]:
    """A context that SIGTERM and SIGHUP leave with an exception, so that temporary files are removed."""

    def end(number: int, _: Any) -> None:
        raise Terminated(number)

    before = {}
    with suppress(ValueError):  # not in the main thread, which gets signals
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interruption:
    """Callback: the first Ctrl-C ends training after the example at hand, and a second one the program.

    Attributes
    ----------
    happened : bool
    """

    happened = False
    _before: Any = None
    _depth = 0

    def __deepcopy__(self, memo: Any) -> "Interruption":
        return self  # also of estimators that are cloned

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which Ctrl-C is noted between trainings as well."""
        self.on_start(None, None)
        try:
            yield
        finally:
            self.on_end(None)

    def on_start(self, trainer: Any, source: Any) -> bool:
        """Listen; what goes before, as reading, Ctrl-C ends at once. Returns whether it has come already."""
        self._depth += 1
        # what began deaf to it, as a job in the background of a script, stays so
        if self._depth == 1 and not self.happened and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(ValueError):  # not in the main thread, which gets signals
                self._before = signal.signal(signal.SIGINT, self._note)
        return self.happened

    def _note(self, *_: Any) -> None:
        self.happened = True
        self._leave()

    def on_end(self, trainer: Any) -> None:
        """Leave Ctrl-C to whom it was left before."""
        self._depth -= 1
        if self._depth == 0:
            self._leave()

    def _leave(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def on_round(self, trainer: Any, step: Any) -> bool:
        """Whether to end."""
        return self.happened

    on_block = on_epoch = on_round

    def lines(self, model: Any, checkpoint: str | None) -> list[str]:
        """What to tell of it."""
        if not self.happened:
            return []
        go_on = f" To go on, call the command again with --resume and --checkpoint {checkpoint}." if checkpoint else ""
        where = f" in epoch {model.n_iter_}" if hasattr(model, "n_iter_") else ""
        parts = f", which annotates {', '.join(model.parts_)}" if hasattr(model, "parts_") else ""
        return [f"Interrupted{where}: the model so far is saved{parts}.{go_on}"]
