"""Colours are distinct for everyone, on light pages and on dark ones."""

import sys
from itertools import combinations

import numpy as np
import pytest

from omkl.exceptions import MissingDependencyError
from omkl.reports import plot_weights
from omkl.reports.plots.canvas import COLOURS, GREY

#: Linear RGB as seen with one type of color blindness: Machado, Oliveira, Fernandes (2009), table 1, severity 1.
BLIND = {
    "nothing": np.eye(3),
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    own = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(own <= 0.04045, own / 12.92, ((own + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLIND)
def test_colours_differ_for_anyone(kind):
    seen = [lab(np.array(BLIND[kind]) @ linear(colour)) for colour in (*COLOURS, GREY)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize("colour", [*COLOURS, GREY])
def test_colours_stand_out_from_light_and_dark_pages(colour):
    luminance = TO_XYZ[1] @ linear(colour)
    assert 1.05 / (luminance + 0.05) > 3  # the contrast of WCAG 2, beside white
    assert (luminance + 0.05) / (TO_XYZ[1] @ linear("#121212") + 0.05) > 3


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        plot_weights({"a": 1.0})
