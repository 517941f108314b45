"""Algorithm 1 and dual averaging written down literally: dense joint feature vectors, no lazy scale, no cache."""

import numpy as np


class NaiveModel:
    """Parameters as one dense matrix a group; ``theta_k`` maps a token's features to label scores.

    Kernel groups are given through an explicit feature map, so that nothing here is kernelised.
    """

    def __init__(self, feature_maps, n_labels, structure, loss, regularizer, lambda_, rate, method, radius=np.inf,
                 average=None, free_transitions=False, batch_size=1, l2=0.0):  # fmt: skip
        self.features = feature_maps
        self.theta = [np.zeros((f.shape[1], n_labels)) for f in feature_maps] + [np.zeros((n_labels, n_labels))]
        self.gradients = [np.zeros_like(t) for t in self.theta]
        self.sums = [np.zeros_like(t) for t in self.theta]
        self.weight = 0.0
        self.structure, self.loss, self.regularizer = structure, loss, regularizer
        self.lambda_, self.rate, self.method, self.radius = lambda_, rate, method, radius
        self.average, self.round, self.presented = average, 0, 0.0
        self.batch_size, self.l2 = batch_size, l2
        self.n_penalized = len(self.theta) - free_transitions

    def potentials(self, low, high):
        potentials = self.structure.zeros(high - low)
        for features, theta in zip(self.features, self.theta):
            potentials.unary[:] += features[low:high] @ theta
        potentials.pairwise[0] += self.theta[-1]
        return potentials

    def update(self, low, high, y):
        return self.update_batch([(low, high, y, 1.0)])

    def update_batch(self, examples):
        """Returns the sum of the weighted losses; ``gradient`` is the mean of the weighted gradients."""
        self.round += 1
        weight = sum(w for *_, w in examples)
        self.presented += weight
        g, value = [np.zeros_like(t) for t in self.theta], 0.0
        for low, high, y, w in examples:
            loss, D = self.loss.value_and_gradient(self.structure, self.potentials(low, high), y)
            value += w * (loss + self.l2 / 2 * np.sum(self.norms**2))
            if D is not None:
                parts = [features[low:high].T @ D.unary for features in self.features] + [D.pairwise.sum(axis=0)]
                g = [total + w * part for total, part in zip(g, parts)]
        self.gradient = [total / self.batch_size for total in g]
        rate = self.rate(self.round)
        if self.method == "fobos":
            decay = 1 - rate * weight / self.batch_size * self.l2
            start = [decay * theta - rate * gradient for theta, gradient in zip(self.theta, self.gradient)]
            step = rate * self.lambda_ * weight / self.batch_size
        else:
            self.gradients = [total + gradient for total, gradient in zip(self.gradients, self.gradient)]
            start = [-rate * total for total in self.gradients]
            step = rate * self.presented / self.batch_size * self.lambda_
        norms = np.array([np.linalg.norm(t) for t in start])
        shrunk = norms.copy()
        if self.regularizer is not None:
            shrunk[: self.n_penalized] = self.regularizer.prox(norms[: self.n_penalized], step)
        self.theta = [t * (s / n if n > 0 else 0.0) for t, s, n in zip(start, shrunk, norms)]
        length = np.sqrt(sum(np.sum(t**2) for t in self.theta))
        if length > self.radius:
            self.theta = [t * self.radius / length for t in self.theta]
        if self.average is not None:
            w = weight * self.average.weight(self.round)
            self.weight += w
            self.sums = [s + w * t for s, t in zip(self.sums, self.theta)]
        return value

    @property
    def norms(self):
        return np.array([np.linalg.norm(t) for t in self.theta])

    def averaged(self):
        return self.theta if not self.weight else [s / self.weight for s in self.sums]
