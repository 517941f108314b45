"""adelie in an environment of its own: reads numbers of calls, and writes the CPU seconds of one, or a word.

The first line of input finds the loosest tolerance at which every point of the path has the relative duality gap.
"""

import json
import sys
import time

import adelie
import numpy as np

TOLERANCES = (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)


def fit(given, tol):
    """Coefficients along the path of ``alphas``: of mean loss and a sum of group norms, no intercept."""
    glm = (
        adelie.glm.binomial(y=(given["y"] > 0).astype(float))
        if given["classifies"]
        else adelie.glm.gaussian(y=given["y"])
    )
    n_columns, size = given["A"].shape[1], int(given["group_size"])
    starts = np.arange(0, n_columns, size)
    state = adelie.grpnet(
        X=given["A"], glm=glm, groups=starts, penalty=np.ones(len(starts)), lmda_path=given["alphas"], tol=tol,
        irls_tol=tol, early_exit=False, intercept=False, progress_bar=False, n_threads=1,
    )  # fmt: skip
    return state.betas


def gap(given, beta, alpha):
    """Relative duality gap of one point of the path."""
    A, y, n, size = given["A"], given["y"], len(given["y"]), int(given["group_size"])
    beta = np.asarray(beta.todense()).ravel()
    outputs = A[:, np.flatnonzero(beta)] @ beta[np.flatnonzero(beta)]
    penalty = alpha * np.linalg.norm(beta.reshape(-1, size), axis=1).sum()
    if given["classifies"]:
        primal = np.logaddexp(0, -y * outputs).mean() + penalty
        point = 1 / (1 + np.exp(y * outputs))
        correlations = A.T @ (y * point) / n
    else:
        point = y - outputs
        primal = 0.5 * (point**2).mean() + penalty
        correlations = A.T @ point / n
    shrink = min(1.0, alpha / np.linalg.norm(correlations.reshape(-1, size), axis=1).max())
    point = shrink * point
    if given["classifies"]:
        inside = np.clip(point, 1e-300, 1 - 1e-16)
        dual = -(inside * np.log(inside) + (1 - inside) * np.log1p(-inside)).mean()
    else:
        dual = 0.5 * (y**2 - (y - point) ** 2).mean()
    return (primal - dual) / primal


def loosest(given):
    """The tolerance, or a word where none gives the gap."""
    for tol in TOLERANCES:
        betas = fit(given, tol)
        found = [gap(given, beta, alpha) for beta, alpha in zip(betas, given["alphas"])]
        if len(found) == len(given["alphas"]) and max(found) <= given["gap"]:
            return tol
    return f"gap {max(found, default=1.0):.0e}"


def main():
    """Serve."""
    given = dict(np.load(sys.argv[1]))
    given["A"] = np.asfortranarray(given["A"])
    given["alphas"] = np.atleast_1d(given["alphas"])
    out, sys.stdout = sys.stdout, sys.stderr
    tol = None
    for line in sys.stdin:
        tol = tol or loosest(given)
        started = time.process_time()
        for _ in range(int(line) if isinstance(tol, float) else 0):
            fit(given, tol)
        seconds = (time.process_time() - started) / int(line)
        print(json.dumps(tol if isinstance(tol, str) else seconds), file=out, flush=True)


if __name__ == "__main__":
    main()
