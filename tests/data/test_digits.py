"""Views of digits, beside what a loop over pixels says."""

import numpy as np
import pytest

from omkl.data import digit_views, handwritten_dates
from omkl.exceptions import InputError


def steps_to_ink(line):
    return next((i for i, pixel in enumerate(line) if pixel > 0.3), 8) / 8


def test_views_are_what_a_loop_finds():
    images = np.vstack(handwritten_dates(3, 1).train_images)
    views = digit_views(images)
    assert {name: view.shape for name, view in views.items()} == {
        "pixels": (24, 64), "profiles": (24, 16), "spectrum": (24, 40), "outline": (24, 32),
    }  # fmt: skip
    for i, image in enumerate(images.reshape(-1, 8, 8)):
        columns, rows = list(image.T), list(image)
        assert views["profiles"][i] == pytest.approx([np.mean(line) for line in rows + columns])
        outline = [line[::way] for lines in (columns, rows) for way in (1, -1) for line in lines]
        assert views["outline"][i].tolist() == [steps_to_ink(line) for line in outline]
        assert views["spectrum"][i].reshape(8, 5) == pytest.approx(np.abs(np.fft.fft2(image))[:, :5] / 8)


def test_spectrum_does_not_see_where_the_digit_is():
    image = np.vstack(handwritten_dates(1, 1).train_images)[:1].reshape(8, 8)
    moved = np.roll(image, (2, 3), axis=(0, 1))
    here, there = digit_views(np.vstack([image.ravel(), moved.ravel()]))["spectrum"]
    assert here == pytest.approx(there)


def test_an_image_without_ink_has_no_outline():
    assert digit_views(np.zeros((1, 64)))["outline"].tolist() == [[1.0] * 32]


@pytest.mark.parametrize("images", [np.zeros((2, 63)), np.zeros(64), np.zeros((1, 8, 8))])
def test_other_images_are_refused(images):
    with pytest.raises(InputError, match="64 pixels"):
        digit_views(images)
