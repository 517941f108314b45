"""Names at the ends of curves, beside the axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from sklearn.isotonic import isotonic_regression

#: Points from the axes to a name, and heights of letters between names.
GAP, SPACING = 16.0, 1.18


class EndLabels(Artist):
    """Names right of axes, each as near to the end of its curve as the others allow, at the size of the drawn figure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    ends : sequence of (float, float)
        Where each curve ends, in data coordinates.
    names : sequence of str
    styles : sequence of dict
        Colour and dashes of each curve.
    size : float
        Of letters, in points.
    colour : str
        Of letters.
    """

    def __init__(
        self,
        ax: Any,
        ends: Sequence[tuple[float, float]],
        names: Sequence[str],
        styles: Sequence[dict[str, Any]],
        size: float,
        colour: str,
    ) -> None:
        super().__init__()
        self.ends, self.size = np.array(ends, dtype=np.float64).reshape(-1, 2), size
        self.texts = [Text(0, 0, name, fontsize=size, color=colour, va="center_baseline") for name in names]
        self.leaders = [Line2D([0] * 4, [0] * 4, linewidth=1.2, **style) for style in styles]
        # to curves that end before the axes do
        self.bridges = [Line2D([0] * 2, [0] * 2, linewidth=0.5, alpha=0.7, color=style["color"]) for style in styles]
        ax.add_artist(self)
        self.set_clip_on(False)
        for own in (*self.texts, *self.leaders, *self.bridges):
            own.set_figure(ax.figure)

    def _place(self) -> None:
        """Heights of names: as near to the ends of the curves as possible in least squares, in the same order."""
        ax: Any = self.axes
        unit, box = ax.figure.dpi / 72.0, ax.get_window_extent()
        places = ax.transData.transform(self.ends)
        heights = np.clip(np.nan_to_num(places[:, 1], nan=box.y0), box.y0, box.y1)
        step = min(SPACING * self.size * unit, (box.height + self.size * unit) / max(len(heights), 1))
        order, ranks = np.argsort(heights, kind="stable"), np.arange(len(heights))
        free = isotonic_regression(heights[order] - step * ranks)
        top = box.y1 - step * (len(heights) - 1)
        spread = np.empty(len(heights))
        spread[order] = np.clip(free, min(box.y0, top), max(box.y0, top)) + step * ranks
        right = box.x1 + unit * np.array([1.0, 3.0, 8.0, GAP - 3.0])
        for k, ((x, _), y, aim) in enumerate(zip(places, heights, spread)):
            self.texts[k].set_position((box.x1 + GAP * unit, aim))
            self.leaders[k].set_data(right, [y, y, aim, aim])
            self.bridges[k].set_data([min(x, box.x1) if np.isfinite(x) else box.x1, right[0]], [y, y])

    def draw(self, renderer: Any) -> None:
        """Draw lines and names."""
        if not self.get_visible():
            return
        self._place()
        for own in (*self.bridges, *self.leaders, *self.texts):
            own.draw(renderer)
        self.stale = False

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        """The box around all names."""
        self._place()
        boxes = [text.get_window_extent(renderer) for text in self.texts if text.get_text()]
        return Bbox.union(boxes) if boxes else Bbox.null()

    def get_tightbbox(self, renderer: Any = None) -> Bbox:
        """The same: names are outside of the axes, and layouts leave room for them."""
        return self.get_window_extent(renderer)
