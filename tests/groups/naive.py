"""Algorithm 1 and dual averaging written down literally.

Joint feature vectors are dense, and there are no lazy scales and no caches.
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
        shapes = [(features.shape[1], n_labels) for features in feature_maps]
        self.shapes = [*shapes, (n_labels, n_labels)]
        self.theta = self.zeros()
        self.gradients = self.zeros()
        self.sums = self.zeros()
        self.weight = 0.0
        self.structure = structure
        self.loss = loss
        self.regularizer = regularizer
        self.lambda_ = lambda_
        self.rate = rate
        self.method = method
        self.radius = radius
        self.average = average
        self.round = 0
        self.presented = 0.0
        self.n_penalized = len(self.theta) - free_transitions
        self.l1 = l1
        self.pending = 0.0
        self.shrinks = False

    def zeros(self):
        """Return a matrix of zeros for each group."""
        return [np.zeros(shape) for shape in self.shapes]

    def potentials(self, low, high):
        potentials = self.structure.zeros(high - low)
        for features, theta in zip(self.features, self.theta):
            potentials.unary[:] += features[low:high] @ theta
        potentials.pairwise[0] += self.theta[-1]
        return potentials

    def update(self, low, high, y, weight=1.0):
        """Return the weighted loss; set ``gradient``, the weighted gradient of each group."""
        self.round += 1
        self.presented += weight
        potentials = self.potentials(low, high)
        loss, potential_gradient = self.loss.value_and_gradient(self.structure, potentials, y)
        self.gradient = self.zeros()
        if potential_gradient is not None:
            unary = potential_gradient.unary
            gradient = [features[low:high].T @ unary for features in self.features]
            gradient.append(potential_gradient.pairwise.sum(axis=0))
            self.gradient = [weight * matrix for matrix in gradient]
        start, step = self.start_and_step(weight)
        self.theta = self.shrunk(start, step)
        length = np.linalg.norm(self.norms)
        if length > self.radius:
            self.theta = [theta * self.radius / length for theta in self.theta]
        self.shrink_coordinates(step)
        if self.average is not None:
            weight_in_average = weight * self.average.weight(self.round)
            self.weight += weight_in_average
            self.sums = added(self.sums, self.theta, weight_in_average)
        return weight * loss

    def start_and_step(self, weight):
        """Return the matrices before the proximal step, and the length of this step."""
        rate = self.rate(self.round)
        if self.method == "fobos":
            return added(self.theta, self.gradient, -rate), rate * self.lambda_ * weight
        self.gradients = added(self.gradients, self.gradient, 1.0)
        start = [-rate * total for total in self.gradients]
        return start, rate * self.presented * self.lambda_

    def shrunk(self, start, step):
        """Return the matrices after the proximal step of the penalised groups."""
        norms = np.array([np.linalg.norm(matrix) for matrix in start])
        norms_after = norms.copy()
        if self.regularizer is not None:
            norms_after[: self.n_penalized] = self.regularizer.prox(norms[: self.n_penalized], step)
        ratios = np.divide(norms_after, norms, out=np.zeros_like(norms), where=norms > 0)
        return [ratio * matrix for ratio, matrix in zip(ratios, start)]

    def shrink_coordinates(self, step):
        """Shrink all entries by the steps that have come together, if it is time."""
        self.pending += self.l1 * step
        if self.shrinks:
            for theta in self.theta:
                theta[:] = np.sign(theta) * np.maximum(np.abs(theta) - self.pending, 0.0)
            self.pending = 0.0

    @property
    def norms(self):
        return np.array([np.linalg.norm(theta) for theta in self.theta])

    def averaged(self):
        """Return the averaged matrices, or the present ones without an average."""
        if self.weight == 0.0:
            return self.theta
        return [total / self.weight for total in self.sums]


def added(matrices, others, factor):
    """Return the matrices plus a multiple of others."""
    return [matrix + factor * other for matrix, other in zip(matrices, others)]
