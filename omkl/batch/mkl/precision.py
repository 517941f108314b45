"""What the rounding of kernels that are stored in single precision does to a certificate."""

import numpy as np

from omkl.batch.core.solver import Solution
from omkl.batch.mkl.problem import Problem

#: Largest relative error of a number that is stored in single precision.
UNIT = 2.0**-24


def rounding_of_storage(problem: Problem, solution: Solution) -> float:
    r"""How much a relative duality gap may be off, of kernels given in double precision and stored in single.

    Rounding adds to each kernel a matrix E of independent entries of at most :data:`UNIT` of the largest entry, whose
    spectral norm is at most :math:`2 \sqrt N` of that (Wigner); :math:`\rho^\top E \alpha_m` then bounds what changes
    in the losses, and about what changes in the norms. Where kernels are rank deficient :math:`\alpha_m` may be huge.
    Of a constant it is the lower bound alone that changes, as :math:`\|\rho\|_K^2` may be more by
    :math:`\rho^\top E \rho`.
    """
    model, certificate, rho = solution.model, solution.certificate, solution.certificate.rho
    active = model.active if len(model.active) else np.arange(problem.kernels.n_kernels)
    spectral = 2.0 * np.sqrt(len(rho)) * UNIT * problem.kernels.diagonals(active).max(axis=1)
    if len(model.active):
        lengths = np.linalg.norm(model.coefficients, axis=1)
        change = 2.0 * float(spectral @ lengths) * float(np.linalg.norm(rho))
    else:
        widened = np.sqrt(problem.dual_norms(rho) ** 2 + spectral * (rho @ rho))
        scale = problem.feasible_scale(widened)
        change = certificate.dual - problem.dual(scale * rho, scale * widened)
    return change / max(abs(certificate.primal), float(np.finfo(np.float64).tiny))
