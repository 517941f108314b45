"""
Labels of pixels that depend on each other
==========================================

Noisy images, whose pixels say little alone, and a snake, whose labels follow from neighbors only.
"""

# %%
# Regions of an image
# -------------------
# Each image has regions of three kinds. The three channels of a pixel say of which kind it is, with
# much noise.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

import omkl
from omkl.data import Graph, grid

rng = np.random.default_rng(0)
labels = [
    gaussian_filter(rng.normal(size=(3, 40, 40)), (0, 3, 3)).argmax(axis=0) for _ in range(20)
]
images = [0.8 * np.eye(3)[own] + rng.normal(size=(40, 40, 3)) for own in labels]


def show(**pictures):
    """Show pictures side by side."""
    _, axes = plt.subplots(
        1, len(pictures), figsize=(2.4 * len(pictures), 2.7), layout="constrained"
    )
    for ax, (title, picture) in zip(axes, pictures.items()):
        ax.imshow(picture)
        ax.set(title=title.replace("_", " "), xticks=[], yticks=[])


# %%
# Without edges, each pixel is classified alone. The grid joins neighbors, and the model learns that
# they tend to have the same label.

pixels = [Graph(image.reshape(-1, 3), edges=[]) for image in images]
alone = omkl.GraphLabeler(["linear"], random_state=0).fit(pixels[:15], labels[:15])
grids = [grid(image) for image in images]
together = omkl.GraphLabeler(["linear"], random_state=0).fit(grids[:15], labels[:15])
print(
    f"alone {alone.score(pixels[15:], labels[15:]):.1%}, together {together.score(grids[15:], labels[15:]):.1%}"
)

channels = np.clip(0.5 + 0.25 * images[15], 0, 1)
found = [
    model.predict(own[15:16])[0].reshape(40, 40)
    for model, own in ((alone, pixels), (together, grids))
]
show(image=channels, labels=labels[15], pixels_alone=found[0], with_neighbors=found[1])

# %%
# A certificate says how much better any other labeling could be.

certificate = together.certificates(grids[15:16])[0]
print(f"score {certificate.score:.2f}, no labeling has more than {certificate.bound:.2f}")

# %%
# A snake
# -------
# Cells of a snake have numbers from head to tail. The color of a cell says only in which direction
# the snake goes on: right, down, left or up. So the number of a cell follows from the cell before
# it, and that from the one before.

MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]
SIZE, LENGTH = 8, 6


def draw_snake():
    """Draw a snake: colors of cells, 0 for the background, and labels, 0 for the background."""
    while True:
        colors, numbers = np.zeros((2, SIZE, SIZE), dtype=int)
        cell = tuple(rng.integers(1, SIZE - 1, size=2))
        for number in range(1, LENGTH + 1):
            ways = [
                k for k, (down, right) in enumerate(MOVES) if not _taken(numbers, cell, down, right)
            ]
            if not ways:
                break
            way = int(rng.choice(ways))
            colors[cell], numbers[cell] = way + 1, number
            cell = cell[0] + MOVES[way][0], cell[1] + MOVES[way][1]
        else:
            return colors, numbers


def _taken(numbers, cell, down, right):
    row, column = cell[0] + down, cell[1] + right
    return not (0 <= row < SIZE and 0 <= column < SIZE) or numbers[row, column] > 0


def graph_of(colors):
    """Make a graph: colors of cells, and for each edge its direction with the colors of both ends."""
    graph = grid(np.eye(5)[colors])
    first, second = (graph.nodes[ends] for ends in graph.edges.T)
    ends = np.einsum("ed,ea,eb->edab", graph.edge_features, first, second)
    return Graph(graph.nodes, graph.edges, ends.reshape(len(ends), -1), directed=True)


snakes, numbers = zip(*(draw_snake() for _ in range(150)))
X = [graph_of(colors) for colors in snakes]
labeler = omkl.GraphLabeler(["linear"], ["linear"], epochs=15, random_state=0).fit(
    X[:120], numbers[:120]
)
print(f"{labeler.score(X[120:], numbers[120:]):.1%} of the cells")

# %%
# The model sees the colors in the first picture.

show(
    colors=snakes[120],
    numbers=numbers[120],
    predicted=labeler.predict(X[120:121])[0].reshape(SIZE, SIZE),
)
