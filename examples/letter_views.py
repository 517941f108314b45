"""
Shared code: gradient histograms of handwritten letters
=======================================================

``letter_views(words)`` turns words, arrays (n, 128) of 16 x 8 pixels, into lists of dicts whose
entries are vectors of length 1, one a view, as :class:`omkl.SequenceLabeler` reads them:

``raw`` gradient histogram of the letter as it is ``shape`` of the letter moved to its centre of
mass, its size brought closer to the average ``upright`` the same, half of its slant taken away
``near`` ``shape``, beside coarser and lighter ones of the letters before and after it; zeros at the
ends of a word

The settings were chosen on folds 0 to 2 of the OCR data set; see ``ocr_table1.py`` for what they
reach on the others.
"""

import numpy as np

ROWS = 16
COLUMNS = 8
#: Where images are sampled: every half pixel, to one pixel beyond their borders, from the centre.
GRID_Y = np.arange(-(ROWS + 2) / 2, (ROWS + 2) / 2 + 0.25, 0.5)
GRID_X = np.arange(-(COLUMNS + 2) / 2, (COLUMNS + 2) / 2 + 0.25, 0.5)
SMOOTHING = 0.7
#: Standard deviations of ink, in pixels down and across, of a letter that is not resized.
SPREAD_Y = 4.0
SPREAD_X = 2.2
DIRECTIONS = 8
NEIGHBOUR_WEIGHT = 0.3


def letter_views(words, batch=100):
    """Return the words as lists of dicts of views, computed for ``batch`` words at a time."""
    tokens = []
    for first in range(0, len(words), batch):
        part = words[first : first + batch]
        ink = np.concatenate(part).reshape(-1, ROWS, COLUMNS).astype(np.float32)
        shape = gradient_planes(normalized(ink))
        views = {
            "raw": histograms(gradient_planes(as_is(ink))),
            "shape": histograms(shape),
            "upright": histograms(gradient_planes(normalized(ink, shear=0.5))),
        }
        coarse = np.sqrt(NEIGHBOUR_WEIGHT) * histograms(shape, cells=(4, 3), width=(2.0, 1.5))
        ends = np.cumsum(list(map(len, part)))
        for low, high in zip([0, *ends[:-1]], ends):
            outside = np.zeros_like(coarse[:1])
            before = np.vstack([outside, coarse[low : high - 1]])
            after = np.vstack([coarse[low + 1 : high], outside])
            near = np.hstack([views["shape"][low:high], before, after])
            word = {name: view[low:high] for name, view in views.items()} | {"near": near}
            tokens.append(
                [{name: view[i] for name, view in word.items()} for i in range(high - low)]
            )
    return tokens


def as_is(ink):
    """Smooth images on the grid without moving or resizing them."""
    down = _bell(GRID_Y[:, None] + (ROWS - 1) / 2 - np.arange(ROWS), SMOOTHING)
    across = _bell(GRID_X[:, None] + (COLUMNS - 1) / 2 - np.arange(COLUMNS), SMOOTHING)
    return down @ ink @ across.T


def normalized(ink, keep=0.5, shear=0.0):
    """Smooth images on the grid around their centers of mass, resized by their second moments.

    ``keep`` is the part of the differences in size, on a log scale, that stays; ``shear`` the part
    of the slant that is taken away.
    """
    y = np.arange(ROWS)
    x = np.arange(COLUMNS)
    ink_y = ink.sum(axis=2)
    ink_x = ink.sum(axis=1)
    mass = np.maximum(ink_y.sum(axis=1), 1.0)
    center_y = ink_y @ y / mass
    center_x = ink_x @ x / mass
    off_y = y - center_y[:, None]
    off_x = x - center_x[:, None]
    variance_y = (ink_y * off_y**2).sum(axis=1) / mass + 1 / 12
    variance_x = (ink_x * off_x**2).sum(axis=1) / mass + 1 / 12
    slant = np.einsum("nrc,nr,nc->n", ink, off_y, off_x) / mass / variance_y
    zoom_y = (np.sqrt(variance_y) / SPREAD_Y) ** (1 - keep)
    zoom_x = (np.sqrt(variance_x) / SPREAD_X) ** (1 - keep)
    at_y = center_y[:, None] + zoom_y[:, None] * GRID_Y
    at_x = (center_x[:, None] + zoom_x[:, None] * GRID_X)[:, None] + (
        shear * slant[:, None] * off_y
    )[:, :, None]
    rows = (_bell(at_x[..., None] - x, SMOOTHING) @ ink[..., None])[..., 0]
    return _bell(at_y[..., None] - y, SMOOTHING) @ rows


def gradient_planes(smooth):
    """Compute the strength of the gradient, split between the two nearest directions."""
    slope_y, slope_x = np.gradient(smooth, axis=(1, 2))
    strength = np.hypot(slope_y, slope_x)
    angle = np.arctan2(slope_y, slope_x) * np.float32(DIRECTIONS / (2 * np.pi))
    planes = []
    for direction in range(DIRECTIONS):
        turn = np.abs(angle - direction)
        turn = np.minimum(turn, np.abs(DIRECTIONS - turn))
        planes.append(strength * np.maximum(0.0, 1.0 - turn))
    return planes


def histograms(planes, cells=(6, 4), width=(1.5, 1.2)):
    """Sum strengths around a grid of cells, compress them, and scale to length 1: (n, directions x
    cells).
    """
    down = _pooling(GRID_Y, ROWS, cells[0], width[0])
    across = _pooling(GRID_X, COLUMNS, cells[1], width[1])
    sums = np.concatenate(
        [(down @ plane @ across.T).reshape(len(plane), -1) for plane in planes], axis=1
    )
    compressed = sums**0.4
    return compressed / np.maximum(np.linalg.norm(compressed, axis=1, keepdims=True), 1e-9)


def _pooling(grid, size, n_cells, width):
    weights = _bell(grid - np.linspace(-(size - 1) / 2, (size - 1) / 2, n_cells)[:, None], width)
    return weights / weights.sum(axis=1, keepdims=True)


def _bell(distance, width):
    return np.exp(-0.5 * (distance.astype(np.float32) / np.float32(width)) ** 2)
