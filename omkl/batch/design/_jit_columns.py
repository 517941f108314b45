"""Columns of a matrix, which are not copied: products with some, and coordinate descent over groups of them."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dense_products(columns, which, rho):
    """``columns[which] @ rho`` for a C-ordered array (n, m)."""
    products = np.empty(len(which))
    for k in range(len(which)):
        products[k] = np.dot(columns[which[k]], rho)
    return products


@njit(cache=True, nogil=True)
def dense_products_and_squares(columns, rho):
    """``columns @ rho`` and the squared norms of all columns, each column being read once."""
    products, squares = np.empty(len(columns)), np.empty(len(columns))
    for k in range(len(columns)):
        products[k] = np.dot(columns[k], rho)
        squares[k] = np.dot(columns[k], columns[k])
    return products, squares


@njit(cache=True, nogil=True)
def sparse_products(data, rows, ends, which, rho):
    """The same for columns of a CSC matrix."""
    products = np.zeros(len(which))
    for k in range(len(which)):
        for entry in range(ends[which[k]], ends[which[k] + 1]):
            products[k] += data[entry] * rho[rows[entry]]
    return products
