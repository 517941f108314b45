"""Passes over the lower triangle of a kernel, for the choice of kernels."""

from omkl._compilation import compiled


@compiled
def centre(gram, roots, constant, along):
    """Weight and centre a kernel (n, n) in place, up to a factor; return False if it is constant.

    Write the lower triangle of ``P D K D P``, with the diagonal D of ``roots``, a unit vector, and the projection P
    along it. The kernel is constant if its trace is at most the share ``constant`` of the largest entry. ``along`` (n,)
    is working memory, zero at first.
    """
    n = len(roots)
    largest = 0.0
    for i in range(n):  # the largest entry of a positive semidefinite matrix is on its diagonal
        largest = gram[i, i] if gram[i, i] > largest else largest
    if not largest > 0.0:
        return False
    for i in range(n):
        row, scale, inner = gram[i], roots[i] / largest, 0.0
        for j in range(i):
            row[j] *= scale * roots[j]
            inner += row[j] * roots[j]
            along[j] += row[j] * roots[i]
        row[i] *= scale * roots[i]
        along[i] += inner + row[i] * roots[i]
    both = 0.0
    for i in range(n):
        both += along[i] * roots[i]
    for i in range(n):
        along[i] -= 0.5 * both * roots[i]
    trace = 0.0
    for i in range(n):
        row = gram[i]
        for j in range(i + 1):
            row[j] -= along[i] * roots[j] + roots[i] * along[j]
        trace += row[i]
    return trace > constant


@compiled
def steps_left_out(kernel, inverse, coefficients, residuals, squares, moved, own, summands):
    """Compute how much a step along the gradient of a kernel helps each sample, left out in turn.

    Parameters
    ----------
    kernel : array of shape (n, n)
        Only the lower triangle is used.
    inverse : array of shape (n, n)
    coefficients, residuals : arrays of shape (n, P)
    squares : array of shape (n, n)
        For each pair of samples, the squared effect of one unit of kernel between them, in both directions.
    moved, own : arrays of shapes (n, P) and (n,)
        Working memory, zero at first.
    summands : array of shape (n,)
        Output.

    Returns
    -------
    float
        The variance of the sum of summands, as a sum over pairs of samples.
    """
    n, width = coefficients.shape
    variance = 0.0
    for i in range(n):
        row, inverse_row, squares_row = kernel[i], inverse[i], squares[i]
        inner = 0.0
        for j in range(i):
            value = row[j]
            variance += value * value * squares_row[j]
            product = value * inverse_row[j]
            inner += product
            own[j] += product
        own[i] += inner + row[i] * inverse_row[i]
        for p in range(width):
            inner = 0.0
            for j in range(i):
                inner += row[j] * coefficients[j, p]
                moved[j, p] += row[j] * coefficients[i, p]
            moved[i, p] += inner + row[i] * coefficients[i, p]
    for i in range(n):
        total = 0.0
        for p in range(width):
            total += residuals[i, p] * (moved[i, p] - own[i] * residuals[i, p])
        summands[i] = total
    return 2.0 * variance
