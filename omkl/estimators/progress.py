"""A progress bar for batch solvers."""

from typing import Any

from omkl._progress import progress_bar


class GapProgress:
    """A bar that shows the duality gap; called with every record of a solver's history.

    Parameters
    ----------
    verbose : bool
        Show it, if the search takes longer than a second; where standard error is no terminal, a line every half
        minute.
    active : str
        What the active parts of the model are called.
    """

    def __init__(self, verbose: bool, active: str) -> None:
        self.active = active
        self.bar = progress_bar(verbose, unit=" iterations")

    def __call__(self, record: dict[str, Any]) -> None:
        self.bar.update()
        self.bar.set_postfix({"gap": f"{record['gap']:.2g}", self.active: record["active"]})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()
