"""Pass over the lower triangle of a kernel, for the choice of kernels."""

from omkl._compilation import compiled


@compiled
def entrywise_products(packed, scale, along, roots, inverse, squares, own):
    """Multiply a weighted, centred kernel by other matrices, entry by entry.

    Entries of the kernel are ``scale roots[i] roots[j] K[i, j] - along[i] roots[j] - roots[i]
    along[j]``.

    Parameters
    ----------
    packed : array of shape (n (n + 1) / 2,)
    scale : float
    along, roots : arrays of shape (n,)
    inverse : symmetric array of shape (n, n)
    squares : array of shape (n, n)
        For each pair of samples, the squared effect of one unit of kernel between them, in both
        directions.
    own : array of shape (n,)
        Set to the row sums of the product of the kernel with ``inverse``.

    Returns
    -------
    float
        The variance of the decrease of the loss by a step in the kernel, as a sum over pairs of
        samples.
    """
    n, variance, start = len(roots), 0.0, 0
    own[:] = 0.0
    for i in range(n):
        row, inverse_row, squares_row = packed[start : start + i + 1], inverse[i], squares[i]
        factor, left, right, inner = scale * roots[i], along[i], roots[i], 0.0
        for j in range(i):
            value = factor * roots[j] * row[j] - (left * roots[j] + right * along[j])
            variance += value * value * squares_row[j]
            product = value * inverse_row[j]
            inner += product
            own[j] += product
        own[i] += inner + (factor * roots[i] * row[i] - 2.0 * left * right) * inverse_row[i]
        start += i + 1
    return 2.0 * variance
