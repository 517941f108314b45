"""The example of views: EasyMKL is correct, and the table separates views from noise."""

import cvxpy as cp
import numpy as np
import pytest

from .running import load_example, run_example, table_of

WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


@pytest.fixture(scope="module")
def made_up():
    """Views of 120 digits that tell them, the one more than the other."""
    rng = np.random.default_rng(0)
    digits = np.repeat(np.arange(10), 12)
    return {
        name: (1 + k / 5) * rng.standard_normal((10, width))[digits] + rng.standard_normal((120, width))
        for k, (name, width) in enumerate(WIDTHS.items())
    }, digits


def test_easymkl_is_the_quadratic_program(made_up):
    example = load_example("views")
    split = example.Split(*made_up, n_train=50, n_useless=2, n_columns=3, seed=0)
    lambda_ = 0.3
    outputs, weights = example.easy(split.kernels, split.y, split.kernels_test, lambda_)
    expected, margins = [], []
    for digit in range(10):
        signs = np.where(split.y == digit, 1.0, -1.0)

        def distribution(kernel, signs=signs):
            gamma = cp.Variable(50, nonneg=True)
            margin = cp.quad_form(cp.multiply(signs, gamma), cp.psd_wrap(kernel))
            classes = [cp.sum(gamma[signs > 0]) == 1, cp.sum(gamma[signs < 0]) == 1]
            objective = cp.Minimize((1 - lambda_) * margin + lambda_ * cp.sum_squares(gamma))
            cp.Problem(objective, classes).solve(solver=cp.CLARABEL)
            return signs * gamma.value

        gamma = distribution(split.kernels.mean(axis=0))
        shares = np.einsum("i,mij,j->m", gamma, split.kernels, gamma)
        expected.append(shares / shares.sum())
        gamma = distribution(np.tensordot(expected[-1], split.kernels, 1))
        margins.append((1 - lambda_) * np.tensordot(expected[-1], split.kernels_test, 1) @ gamma)
    np.testing.assert_allclose(weights, np.mean(expected, axis=0), atol=1e-4)
    # biases differ by digit, outputs otherwise by nothing
    centred = outputs - outputs.mean(axis=0)
    np.testing.assert_allclose(centred, np.array(margins).T - np.mean(margins, axis=1), atol=1e-3)


def test_the_table_tells_views_from_noise(made_up, tmp_path):
    views, digits = made_up
    header = [f"{name}{i}" for name, width in WIDTHS.items() for i in range(width)]
    numbers = np.column_stack([*views.values(), digits])
    np.savetxt(tmp_path / "mfeat.csv", numbers, "%.4f", delimiter=",", header=",".join([*header, "y"]), comments="")
    methods = ["SVC, all columns", "best view", "uniform", "EasyMKL", "mkl", "online, unseen", "batch, unseen", "told"]
    options = ["--data", "mfeat.csv", "--train", "50", "--useless", "0", "3", "--splits", "1", "-o", "."]
    printed = run_example("views", tmp_path, *options, "--methods", *methods)
    assert (tmp_path / "views.png").exists() or "No figure" in printed
    rows = table_of(tmp_path / "views.csv")
    assert [(row["method"], row["useless"]) for row in rows] == [(m, n) for n in ("0", "3") for m in methods]
    assert all(float(row["accuracy"]) > 80 for row in rows)
    alive = {row["method"]: row["useless alive"] for row in rows if row["useless"] == "3"}
    assert alive["uniform"] == "3"
    assert alive["batch, unseen"] == alive["told"] == "0"
