"""
Select among 1,760 kernels on images
====================================

    python examples/image_kernels.py                   the digits that ship with scikit-learn
    python examples/image_kernels.py --train 400 --C 10 30

After the Caltech-101 experiment of Tomioka, Suzuki and Sugiyama's slides, on images that everybody
has: four features of every pixel's neighbourhood, each summed up over 22 parts of the image (the
whole, 2 x 2 and 4 x 4 cells, and a spatial pyramid of them), and for each of these 88 descriptions
ten Gaussian and ten chi-squared kernels. MKL with the block 1-norm picks those that tell five
digits apart; the table compares it with the uniform combination of all.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from omkl import MKLClassifier
from omkl.cli.console import prepare_output, table, write_json
from omkl.exceptions import MissingDependencyError
from omkl.kernels import ChiSquared, Gaussian
from omkl.reports import plot_curves

DIGITS = (1, 3, 5, 8, 9)
SIDE = 8
SCALES = np.geomspace(0.1, 10.0, 10)


def orientations(images, n_bins=8):
    """Compute the strength of the gradient in ``n_bins`` directions at every pixel: (n, 8, 8,
    n_bins).
    """
    dy, dx = np.gradient(images, axis=(1, 2))
    angle = np.arctan2(dy, dx) % (2 * np.pi)
    bins = (angle * n_bins / (2 * np.pi)).astype(int) % n_bins
    return np.hypot(dx, dy)[..., None] * (bins[..., None] == np.arange(n_bins))


def intensities(images, n_bins=5):
    """Compute indicators of ``n_bins`` gray levels at every pixel: (n, 8, 8, n_bins)."""
    levels = np.minimum((images * n_bins).astype(int), n_bins - 1)
    return (levels[..., None] == np.arange(n_bins)).astype(float)


def centers_and_surrounds(images):
    """Compute how much brighter or darker every pixel is than its surroundings: (n, 8, 8, 2)."""
    contrast = images - ndimage.gaussian_filter(images, sigma=(0, 1.5, 1.5))
    return np.stack([np.maximum(contrast, 0.0), np.maximum(-contrast, 0.0)], axis=-1)


FEATURES = {
    "ink": lambda images: images[..., None],
    "grey levels": intensities,
    "orientations": orientations,
    "contrast": centers_and_surrounds,
}


def descriptions(images):
    """Compute all descriptions by name: histograms of a feature over a part of the image, (n, d)
    each.
    """
    histograms = {}
    for name, feature in FEATURES.items():
        pixels = feature(images)
        levels = []
        for grid in (1, 2, 4):
            width = SIDE // grid
            cells = pixels.reshape(len(images), grid, width, grid, width, -1).sum(axis=(2, 4))
            cells = cells.reshape(len(images), grid * grid, -1)
            for cell in range(grid * grid):
                histograms[f"{name}, cell {cell + 1} of {grid}x{grid}"] = cells[:, cell]
            levels.append(cells.reshape(len(images), -1))
        histograms[f"{name}, pyramid"] = np.hstack(
            [weight * level for weight, level in zip((0.25, 0.25, 0.5), levels)]
        )
    return histograms


def kernels_on(views, train):
    """Return ten Gaussian and ten chi-squared kernels on each description, with scales relative to
    the data.
    """
    kernels = {}
    first = 0
    for name, view in views.items():
        on = slice(first, first + view.shape[1])
        first = on.stop
        width = Gaussian().fit(view[train]).width_
        for scale in SCALES:
            kernels[f"{name}, Gaussian {scale:.2g}"] = Gaussian(scale * width, on=on)
            kernels[f"{name}, chi-squared {scale:.2g}"] = ChiSquared(
                scale / max(view[train].mean(), 1e-9), on=on
            )
    return kernels


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=int, default=200, help="number of training images")
    parser.add_argument(
        "--C", type=float, nargs="+", default=[1.0, 3.0, 10.0], help="weights of the losses"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("omkl-output"), help="folder for the figures"
    )
    arguments = parser.parse_args()
    prepare_output(arguments.output / "image_kernels.json")

    digits = load_digits()
    chosen = np.isin(digits.target, DIGITS)
    images = digits.images[chosen] / 16.0
    y = digits.target[chosen]
    train, test = train_test_split(
        np.arange(len(y)), train_size=arguments.train, stratify=y, random_state=arguments.seed
    )
    views = descriptions(images)
    X = np.hstack(list(views.values()))
    kernels = kernels_on(views, train)
    print(
        f"{len(kernels)} kernels on {len(views)} descriptions; {len(train)} training and"
        f" {len(test)} test images"
    )

    rows = []
    learned = {}
    settings = [("uniform", 1.0), *(("block1", C) for C in arguments.C)]
    for regularizer, C in settings:
        started = time.perf_counter()
        model = MKLClassifier(kernels, regularizer=regularizer, C=C).fit(X[train], y[train])
        seconds = time.perf_counter() - started
        accuracy = 100 * model.score(X[test], y[test])
        rows.append(
            {
                "regularizer": regularizer,
                "C": C,
                "accuracy": accuracy,
                "seconds": seconds,
                "kernels": model.n_active_,
                "dual_gap": model.dual_gap_,
            }
        )
        learned[f"{regularizer}, C = {C:g}"] = model.kernel_weights_
        print(
            f"{regularizer}, C = {C:g}: {accuracy:.2f}%, {model.n_active_} kernels,"
            f" {seconds:.1f} s",
            flush=True,
        )

    show(rows, learned)
    write_json(arguments.output / "image_kernels.json", {"rows": rows, "weights": learned})
    try:
        draw(learned, arguments.output / "image_kernels.png")
    except MissingDependencyError as error:
        print(f"No figure: {error}")


def show(rows, learned):
    """Print the table, and the largest weights of the most accurate MKL."""
    cells = [
        (
            row["regularizer"],
            f"{row['C']:g}",
            f"{row['accuracy']:.2f}",
            row["kernels"],
            f"{row['dual_gap']:.1e}",
            f"{row['seconds']:.1f}",
        )
        for row in rows
    ]
    header = ("regularizer", "C", "accuracy, %", "active kernels", "dual gap", "s, kernels built")
    print("\n".join(table(cells, header)))
    best = max(rows[1:], key=lambda row: row["accuracy"])
    weights = learned[f"block1, C = {best['C']:g}"]
    print(f"What MKL picks (C = {best['C']:g}):")
    for name in sorted(weights, key=weights.get, reverse=True)[:10]:
        print(f"  {weights[name]:.3f}  {name}")


def draw(learned, path):
    """Draw the weights of each model in descending order."""
    curves = {}
    for name, weights in learned.items():
        ranks = list(range(1, len(weights) + 1))
        curves[name] = (ranks, sorted(weights.values(), reverse=True))
    plot_curves(curves, path, "Kernel weights", "rank of the kernel", "weight")


if __name__ == "__main__":
    main()
