"""Algorithm 1 and dual averaging written down literally: dense joint feature vectors, no lazy
scale, no cache.
"""

import numpy as np


class NaiveModel:
    """Parameters as one dense matrix a group; ``theta_k`` maps a token's features to label scores.

    Kernel groups are given through an explicit feature map, so that nothing here is kernelised.
    """

    def __init__(
        self,
        feature_maps,
        n_labels,
        structure,
        loss,
        regularizer,
        lambda_,
        rate,
        method,
        radius=np.inf,
        average=None,
        free_transitions=False,
        l1=0.0,
    ):
        self.features = feature_maps
        self.theta = [np.zeros((f.shape[1], n_labels)) for f in feature_maps] + [
            np.zeros((n_labels, n_labels))
        ]
        self.gradients = [np.zeros_like(t) for t in self.theta]
        self.sums = [np.zeros_like(t) for t in self.theta]
        self.weight = 0.0
        self.structure, self.loss, self.regularizer = structure, loss, regularizer
        self.lambda_, self.rate, self.method, self.radius = lambda_, rate, method, radius
        self.average, self.round, self.presented = average, 0, 0.0
        self.n_penalized = len(self.theta) - free_transitions
        self.l1, self.pending, self.shrinks = l1, 0.0, False

    def potentials(self, low, high):
        potentials = self.structure.zeros(high - low)
        for features, theta in zip(self.features, self.theta):
            potentials.unary[:] += features[low:high] @ theta
        potentials.pairwise[0] += self.theta[-1]
        return potentials

    def update(self, low, high, y, weight=1.0):
        """Returns the weighted loss; ``gradient`` is the weighted gradient."""
        self.round += 1
        self.presented += weight
        loss, D = self.loss.value_and_gradient(self.structure, self.potentials(low, high), y)
        self.gradient = [np.zeros_like(t) for t in self.theta]
        if D is not None:
            parts = [features[low:high].T @ D.unary for features in self.features] + [
                D.pairwise.sum(axis=0)
            ]
            self.gradient = [weight * part for part in parts]
        rate = self.rate(self.round)
        if self.method == "fobos":
            start = [theta - rate * gradient for theta, gradient in zip(self.theta, self.gradient)]
            step = rate * self.lambda_ * weight
        else:
            self.gradients = [
                total + gradient for total, gradient in zip(self.gradients, self.gradient)
            ]
            start = [-rate * total for total in self.gradients]
            step = rate * self.presented * self.lambda_
        norms = np.array([np.linalg.norm(t) for t in start])
        shrunk = norms.copy()
        if self.regularizer is not None:
            shrunk[: self.n_penalized] = self.regularizer.prox(norms[: self.n_penalized], step)
        self.theta = [t * (s / n if n > 0 else 0.0) for t, s, n in zip(start, shrunk, norms)]
        length = np.sqrt(sum(np.sum(t**2) for t in self.theta))
        if length > self.radius:
            self.theta = [t * self.radius / length for t in self.theta]
        self.pending += self.l1 * step
        if self.shrinks:
            self.theta = [
                np.sign(t) * np.maximum(np.abs(t) - self.pending, 0.0) for t in self.theta
            ]
            self.pending = 0.0
        if self.average is not None:
            w = weight * self.average.weight(self.round)
            self.weight += w
            self.sums = [s + w * t for s, t in zip(self.sums, self.theta)]
        return weight * loss

    @property
    def norms(self):
        return np.array([np.linalg.norm(t) for t in self.theta])

    def averaged(self):
        return self.theta if not self.weight else [s / self.weight for s in self.sums]
