"""What a format of files declares, so that it is found by its name and by the names of files."""

from collections.abc import Sequence
from typing import Any, ClassVar

from omkl._components import Component
from omkl.data.streams import Stream


class StreamFormat(Component):
    """A format of files that :func:`~omkl.data.open_stream` and the command line read.

    A subclass is found as soon as it is defined: by a name in ``aliases``, or by a suffix.

    Attributes
    ----------
    aliases : dict of str to dict
        What the format is called, ``{"name": {}}``.
    suffixes : tuple of str
        How names of files in the format end, compression aside, in small letters.
    holds : {"rows", "sequences", "trees"}
        What an example is: a row with one output, a labelled sequence, or a sentence with a tree.
    has_target : bool
        Whether it can be said where the outputs are.
    default_target : object
        Where they are, if they are asked for and it is not said.

    Examples
    --------
    >>> from pathlib import Path
    >>> class FixedWidth(StreamFormat):
    ...     aliases = {"fixed": {}}
    ...     suffixes = (".fixed",)
    ...     def open(self, path, width=8):
    ...         rows = [line.rstrip() for line in Path(path).read_text().splitlines()]
    ...         cells = [[float(row[i : i + width]) for i in range(0, len(row), width)] for row in rows]
    ...         return Stream.from_iterable([(row[:-1], row[-1]) for row in cells])
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "rows"
    has_target: ClassVar[bool] = False
    default_target: ClassVar[Any] = None

    def open(self, path: Any, **options: Any) -> Stream:
        """The stream.

        Parameters
        ----------
        path : path-like or list of path-like
        **options
            ``target``, where the format :attr:`has_target` and it is given; and what else the format takes.
        """
        raise NotImplementedError

    def options_for(self, n_features: int | None, names: Sequence[str] | None) -> dict[str, Any]:
        """Options that ask for the columns that a model has learned from; none where a format cannot choose columns.

        Parameters
        ----------
        n_features : int or None
            How many there were, if inputs were rows of numbers.
        names : sequence of str or None
            What they were called, if they had names.
        """
        return {}
