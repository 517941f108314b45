"""Strings that name kernels and templates: whatever is written, what comes of it is a part or omkl's own error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl._components import resolve
from omkl.exceptions import InputError, OmklError
from omkl.groups import TemplateSet
from omkl.kernels import Kernel, as_kernel
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

KERNEL_WORDS = (
    "linear quadratic polynomial gaussian laplacian chi2 string : , = - [ ] ( ) ' \" on degree power sigma2 gamma "
    "features map seed normalize diagonal nystrom fourier 0 1 2 -1 1e308 1e-308 nan inf 0:3 0:- 0:3:0 a:b a True None"
)
TEMPLATE_WORDS = (
    "h m between . h.form m.form h.lemma m-1.upos between.upos h+2.xpos h.misc:Gloss m.Case h.prefix3 m.suffix10 "
    "distance direction = # + - : h-99999999999999999999.form prefix0"
)
ODD = ["9" * 25, "9" * 5000, "\0", "\ud800", "é", "x" * 5000, "\udcff" * 3000, " ", "\n", "\t"]
KERNEL_PARTS, TEMPLATE_PARTS = (st.sampled_from(words.split() + ODD) for words in (KERNEL_WORDS, TEMPLATE_WORDS))


def check(make, text):
    try:
        return make(text)
    except OmklError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 1000
        message.encode()


@given(parts=st.lists(KERNEL_PARTS, min_size=1, max_size=8), base=st.sampled_from([Kernel, Regularizer, PointwiseLoss]))
def test_strings_of_parts_make_parts_or_are_refused(parts, base):
    part = check(lambda text: resolve(base, text, "part"), "".join(parts))
    assert part is None or isinstance(part, base)
    check(lambda text: as_kernel(text).fit(np.eye(3)), "".join(parts))


@given(parts=st.lists(TEMPLATE_PARTS, min_size=1, max_size=8), gap=st.sampled_from(["", " "]))
def test_lines_of_templates_make_templates_or_are_refused(parts, gap):
    check(lambda text: TemplateSet.resolve([text]), gap.join(parts))


@pytest.mark.parametrize("on", ["0:-", "-:", "0:3:0", "0:3:-", "9" * 5000 + ":"])
def test_ranges_of_columns_that_are_none_are_refused(on):
    with pytest.raises(InputError):
        as_kernel(f"linear:on={on}").placed(5)


@pytest.mark.parametrize("value", ["9" * 400, "[,]", "[a", "(((a)))"])
def test_values_that_python_cannot_read_are_refused(value):
    for spec in (f"gaussian:sigma2={value}", f"polynomial:degree={value}", f"linear:on={value}"):
        check(lambda text: as_kernel(text).fit(np.eye(3)), spec)


@pytest.mark.parametrize("degree", ["1001", "1e9", "9" * 400])
def test_powers_that_would_take_for_ever_are_refused(degree):
    with pytest.raises(InputError, match="degree must be a whole number"):
        as_kernel(f"polynomial:degree={degree}")


@pytest.mark.parametrize("spec", ["gaussian:features=1000000000000", "chi2:features=1000001"])
def test_maps_of_more_features_than_fit_are_refused(spec):
    with pytest.raises(InputError, match="features must be a whole number"):
        as_kernel(spec)
