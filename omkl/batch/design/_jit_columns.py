"""Columns of a matrix, which are not copied: products with some, and coordinate descent over groups of them."""

import numpy as np

from omkl._compilation import compiled


@compiled
def dense_products(columns, which, rho):
    """``columns[which] @ rho`` for a C-ordered array (n, m)."""
    products = np.empty(len(which))
    for k in range(len(which)):
        products[k] = np.dot(columns[which[k]], rho)
    return products


@compiled
def dense_combination(columns, which, coefficients):
    """``coefficients[which] @ columns[which]`` for a C-ordered array (n, m)."""
    combination = np.zeros(columns.shape[1])
    for k in range(0, len(which) - 3, 4):
        a, b, c, d = columns[which[k]], columns[which[k + 1]], columns[which[k + 2]], columns[which[k + 3]]
        p, q = coefficients[which[k]], coefficients[which[k + 1]]
        r, s = coefficients[which[k + 2]], coefficients[which[k + 3]]
        for i in range(len(combination)):
            combination[i] += (p * a[i] + q * b[i]) + (r * c[i] + s * d[i])
    for k in range(len(which) - len(which) % 4, len(which)):
        column, coefficient = columns[which[k]], coefficients[which[k]]
        for i in range(len(combination)):
            combination[i] += coefficient * column[i]
    return combination


@compiled
def dense_products_and_squares(columns, rho):
    """``columns @ rho`` and the squared norms of all columns, each column being read once."""
    products, squares = np.empty(len(columns)), np.empty(len(columns))
    for k in range(len(columns)):
        products[k] = np.dot(columns[k], rho)
        squares[k] = np.dot(columns[k], columns[k])
    return products, squares


@compiled
def sparse_products(data, rows, ends, which, rho):
    """The same for columns of a CSC matrix."""
    products = np.zeros(len(which))
    for k in range(len(which)):
        for entry in range(ends[which[k]], ends[which[k] + 1]):
            products[k] += data[entry] * rho[rows[entry]]
    return products
