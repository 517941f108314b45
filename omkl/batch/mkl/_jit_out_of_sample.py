"""Pass over the lower triangle of a kernel, for the choice of kernels."""

from omkl._compilation import compiled


@compiled
def entrywise_products(packed, scale, along, roots, inverse, squares, row_sums):
    """Multiply a weighted, centred kernel by other matrices, entry by entry.

    Entries of the kernel are ``scale roots[i] roots[j] K[i, j] - along[i] roots[j] - roots[i]
    along[j]``.

    Parameters
    ----------
    packed : array of shape (n (n + 1) / 2,)
        The lower triangle of K, row by row.
    scale : float
    along, roots : arrays of shape (n,)
    inverse : symmetric array of shape (n, n)
    squares : array of shape (n, n)
        For each pair of samples, the squared effect of one unit of kernel between them, in both
        directions.
    row_sums : array of shape (n,)
        Set to the row sums of the product of the kernel with ``inverse``.

    Returns
    -------
    float
        The variance of the decrease of the loss by a step in the kernel, as a sum over pairs of
        samples.
    """
    n = len(roots)
    variance = 0.0
    start = 0
    row_sums[:] = 0.0
    for i in range(n):
        row = packed[start : start + i + 1]
        inverse_row = inverse[i]
        squares_row = squares[i]
        factor = scale * roots[i]
        along_i = along[i]
        root_i = roots[i]
        row_sum = 0.0
        for j in range(i):
            value = factor * roots[j] * row[j] - (along_i * roots[j] + root_i * along[j])
            variance += value * value * squares_row[j]
            product = value * inverse_row[j]
            row_sum += product
            row_sums[j] += product
        diagonal = factor * roots[i] * row[i] - 2.0 * along_i * root_i
        row_sums[i] += row_sum + diagonal * inverse_row[i]
        start += i + 1
    return 2.0 * variance
