"""
Write your own stream format: ARFF files of any size
====================================================

omkl streams svmlight, CSV, Parquet, Arrow, npz, JSON lines, treebanks and more. Yours is another?
Here we teach it ARFF, the format of Weka, which many data sets of OpenML have, in forty lines. From
then on every estimator learns from such files block by block, without holding them.
"""

# %%
# A file
# ------
# An ARFF file begins with the columns, their names and types; then come the rows. We write one, of
# irises in a random order, and compress it, since files are large.

import gzip
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import omkl
from omkl.data import Block, Stream, StreamFormat, lines
from omkl.exceptions import DataFileError
from omkl.reports import plot_weights

irises = load_iris()
order = np.random.default_rng(0).permutation(150)
kinds = [str(irises.target_names[label]) for label in irises.target[order]]
header = ["% a comment", "@RELATION irises"]
header += [f"@ATTRIBUTE '{name.removesuffix(' (cm)')}' NUMERIC" for name in irises.feature_names]
header += ["@ATTRIBUTE kind {setosa,versicolor,virginica}", "@DATA"]
rows = [",".join(map(str, [*row, kind])) for row, kind in zip(irises.data[order].tolist(), kinds)]
folder = TemporaryDirectory()
path = Path(folder.name) / "irises.arff.gz"
path.write_bytes(gzip.compress("\n".join([*header, *rows]).encode()))
print("\n".join([*header, *rows[:3], "..."]))

# %%
# The format
# ----------
# A :class:`~omkl.data.StreamFormat` declares what it is called and how its files end, and ``open``
# returns a :class:`~omkl.data.Stream`: a function that makes a pass whenever it is called, as often
# as there are epochs, by yielding blocks of whatever size is handy. :func:`omkl.data.lines` reads
# lines of files, plain or compressed, and says so where one is cut short or damaged.
#
# Two things make a reader a good one. It **never guesses**: what cannot be read is refused by a
# sentence with the file and the line. And it holds **a block at a time**, so that the file may be
# larger than memory.


class ARFF(StreamFormat):
    """Dense ARFF files: numbers, and the class in the last column or in the column ``target``."""

    aliases: ClassVar = {"arff": {}}
    suffixes = (".arff",)
    has_target = True

    def open(self, path, target=None, block_size=1000):
        names = [name for name, _ in self.rows(path, header_only=True)]
        target = names[-1] if target is None else target
        if target not in names:
            raise DataFileError(f"{path} has no attribute {target!r}: it has {', '.join(names)}.")
        place = names.index(target)
        others = names[:place] + names[place + 1 :]

        def one_pass(epoch):
            X, y = [], []
            for number, cells in self.rows(path):
                try:
                    X.append([float(cell) for cell in cells[:place] + cells[place + 1 :]])
                except ValueError as error:
                    raise DataFileError(f"{path}, line {number}: {error}.") from None
                if len(cells) != len(names):
                    raise DataFileError(
                        f"{path}, line {number}: {len(cells)} cells, not {len(names)}."
                    )
                y.append(cells[place])
                if len(y) == block_size:
                    yield Block(np.array(X), np.array(y), others)
                    X, y = [], []
            if y:
                yield Block(np.array(X), np.array(y), others)

        return Stream(one_pass, block_size, feature_names=others)

    def rows(self, path, header_only=False):
        """Yield ``(name, type)`` of every column, or ``(line, cells)`` of every row."""
        in_header = True
        for number, line in enumerate(lines(path), 1):
            text = line.decode().strip()
            if not text or text.startswith("%"):
                continue
            if not in_header:
                yield number, [cell.strip(" '\"") for cell in text.split(",")]
            elif found := re.match(r"@attribute\s+('[^']*'|\S+)\s+(.+)", text, re.IGNORECASE):
                if header_only:
                    yield found[1].strip("'"), found[2]
            elif text.lower() == "@data":
                in_header = False
                if header_only:
                    return


# %%
# Use it
# ------
# The class is found by the suffix as soon as it is defined. Columns keep their names, so kernels
# can ask for them.

stream = omkl.data.open_stream(path)
print(stream.feature_names)
kernels = {name: f"gaussian:on={name},sigma2=0.5" for name in stream.feature_names}
model = omkl.OnlineMKLClassifier(kernels, epochs=5, random_state=0).fit(stream)
X, y = stream.read()
print(
    f"{100 * np.mean(model.predict(stream) == y):.1f}% of the irises that it has seen are told apart"
)
figure, axis = plt.subplots(figsize=(6.5, 2), layout="constrained")
plot_weights(model, ax=axis)

# %%
# A million rows would take no more memory: with ``"gaussian:features=300"`` instead of kernels that
# compare with every example seen, time for a row does not grow either; see the tutorial of a stream
# that drifts.
#
# And if something is wrong:

damaged = Path(folder.name) / "damaged.arff"
damaged.write_text("\n".join([*header, *rows[:5], "5.1,three,1.4,0.2,setosa"]))
try:
    model.fit(omkl.data.open_stream(damaged))
except DataFileError as error:
    print(str(error).replace(folder.name, "..."))
folder.cleanup()

# %%
# On the command line
# -------------------
# The formats of the command line are those of the library: put the class into a module of yours,
# import it, and call ``omkl.cli.main()``, and ``train classifier irises.arff.gz -o model.npz``
# works there, too.
