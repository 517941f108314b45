"""Single outputs: multiclass against enumeration, and binary against multiclass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import log_softmax, logsumexp, softmax

from omkl.losses import CRF, StructuredHinge
from omkl.structures import Binary, Multiclass

scores = st.lists(st.floats(-30, 30), min_size=1, max_size=6).map(np.array)


@given(z=scores)
def test_softmax_is_scipys(z):
    log_partition, marginals = Multiclass(len(z)).marginals(z)
    assert_allclose(log_partition, logsumexp(z), atol=1e-12)
    assert_allclose(marginals.unary[0], softmax(z), atol=1e-12)


@given(z=scores, gold=st.integers(0, 5))
def test_decoding_takes_the_first_of_the_best(z, gold):
    gold = gold % len(z)
    structure = Multiclass(len(z))
    assert structure.decode(z) == int(np.argmax(z))
    assert structure.loss_augmented(z, gold) == int(np.argmax(z + (np.arange(len(z)) != gold)))


def test_a_cost_matrix_weighs_mistakes():
    structure = Multiclass(3, costs=[[0, 5, 1], [1, 0, 1], [1, 1, 0]])
    assert structure.loss_augmented([0.0, 0.0, 3.0], 0) == 1
    assert structure.cost(0, 1) == 5


@given(z=st.floats(-20, 20), gold=st.integers(0, 1))
def test_binary_is_the_two_class_problem_with_opposite_scores(z, gold):
    binary, multiclass = Binary(), Multiclass(2)
    one, two = np.array([z]), np.array([-z / 2, z / 2])
    assert binary.decode(one) == multiclass.decode(two)
    for loss in (StructuredHinge(), CRF()):
        value, gradient = loss.value_and_gradient(binary, one, gold)
        expected, expected_gradient = loss.value_and_gradient(multiclass, two, gold)
        assert_allclose(value, expected, atol=1e-12)
        if gradient is None:
            assert expected_gradient is None
        else:
            # dL/dz = (dL/ds_1 - dL/ds_0) / 2
            slope = (expected_gradient.unary[0, 1] - expected_gradient.unary[0, 0]) / 2
            assert_allclose(gradient.unary[0, 0], slope, atol=1e-12)
    assert_allclose(binary.score(one, gold), multiclass.score(two, gold))
    assert_allclose(binary.indicator(gold).unary[0, 0] * z, binary.score(one, gold))


@pytest.mark.parametrize("y", [-1, 1])
@pytest.mark.parametrize("z", [-3.0, -0.2, 0.0, 0.7, 1.0, 5.0])
def test_binary_losses_are_the_textbook_ones(y, z):
    gold = (y + 1) // 2
    hinge, _ = StructuredHinge().value_and_gradient(Binary(), np.array([z]), gold)
    assert_allclose(hinge, max(0.0, 1 - y * z))
    logistic, gradient = CRF().value_and_gradient(Binary(), np.array([z]), gold)
    assert_allclose(logistic, np.log1p(np.exp(-y * z)))
    assert_allclose(gradient.unary[0, 0], -y / (1 + np.exp(y * z)))


def test_multiclass_crf_is_log_loss():
    z = np.array([0.3, -1.0, 2.0])
    value, gradient = CRF().value_and_gradient(Multiclass(3), z, 1)
    assert_allclose(value, -log_softmax(z)[1])
    assert_allclose(gradient.unary[0], softmax(z) - np.eye(3)[1])
