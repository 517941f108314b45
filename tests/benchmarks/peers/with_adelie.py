"""Run adelie in its own environment: read numbers of calls, and write the CPU seconds of one call,
or a message.

The first line of input finds the loosest tolerance at which every point of the path has the
relative duality gap.
"""

import json
import sys
import time

import adelie
import numpy as np

TOLERANCES = (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)


def entropy(u):
    """Return u log u, which is 0 at 0."""
    return u * np.log(np.maximum(u, 1e-300))


def probabilities(z):
    """Return the probabilities of classes from scores (m, K)."""
    found = np.exp(z - z.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


#: Of each kind, for targets and scores (m, K): adelie's model, the loss, the expected targets, and
#: the loss's conjugate at minus a residual.
KINDS = {
    "gaussian": (
        lambda y: adelie.glm.gaussian(y=y[:, 0]),
        lambda y, z: 0.5 * (y - z) ** 2,
        lambda z: z,
        lambda y, rho: 0.5 * rho**2 - y * rho,
    ),
    "multigaussian": (
        lambda y: adelie.glm.multigaussian(y=y),
        lambda y, z: 0.5 * (y - z) ** 2,
        lambda z: z,
        lambda y, rho: 0.5 * rho**2 - y * rho,
    ),
    "binomial": (
        lambda y: adelie.glm.binomial(y=y[:, 0]),
        lambda y, z: np.logaddexp(0, z) - y * z,
        lambda z: 1 / (1 + np.exp(-z)),
        lambda y, rho: entropy(y - rho) + entropy(1 - y + rho),
    ),
    "poisson": (
        lambda y: adelie.glm.poisson(y=y[:, 0]),
        lambda y, z: np.exp(z) - y * z - y + entropy(y),
        np.exp,
        lambda y, rho: entropy(y - rho) - (y - rho) + y - entropy(y),
    ),
    "multinomial": (
        lambda y: adelie.glm.multinomial(y=y),
        lambda y, z: np.logaddexp.reduce(z, axis=1) - (y * z).sum(axis=1),
        probabilities,
        lambda y, rho: entropy(y - rho),
    ),
}


def fit(given, tol):
    """Coefficients along the path of ``alphas``: of mean loss and a sum of group norms, no
    intercept.
    """
    y, starts = given["Y"], np.arange(0, given["A"].shape[1], int(given["group_size"]))
    # its losses of several outputs are means over outputs
    path = given["alphas"] / (y.shape[1] if str(given["kind"]).startswith("multi") else 1)
    state = adelie.grpnet(
        X=given["A"],
        glm=KINDS[str(given["kind"])][0](y),
        groups=starts,
        penalty=np.ones(len(starts)),
        lmda_path=path,
        tol=tol,
        irls_tol=tol,
        early_exit=False,
        intercept=False,
        progress_bar=False,
        n_threads=1,
    )
    return state.betas


def gap(given, beta, alpha):
    """Relative duality gap of one point of the path."""
    A, y = given["A"], given["Y"]
    _, loss, mean, conjugate = KINDS[str(given["kind"])]
    width = int(given["group_size"]) * y.shape[1]
    beta = np.asarray(beta.todense()).reshape(A.shape[1], -1)
    used = np.flatnonzero(beta.any(axis=1))
    outputs = A[:, used] @ beta[used]
    primal = (
        loss(y, outputs).sum() / len(y)
        + alpha * np.linalg.norm(beta.reshape(-1, width), axis=1).sum()
    )
    rho = y - mean(outputs)
    largest = np.linalg.norm((A.T @ rho / len(y)).reshape(-1, width), axis=1).max()
    return (primal + conjugate(y, min(1.0, alpha / largest) * rho).sum() / len(y)) / abs(primal)


def loosest(given):
    """Return the loosest tolerance that gives the gap, or a message if none does."""
    for tol in TOLERANCES:
        betas = fit(given, tol)
        found = [gap(given, beta, alpha) for beta, alpha in zip(betas, given["alphas"])]
        if len(found) == len(given["alphas"]) and max(found) <= given["gap"]:
            return tol
    return f"gap {max(found, default=1.0):.0e}"


def main():
    """Answer requests until the input ends."""
    given = dict(np.load(sys.argv[1]))
    given["A"], given["Y"] = (
        np.asfortranarray(given["A"]),
        np.ascontiguousarray(given["Y"], dtype=np.float64),
    )
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
