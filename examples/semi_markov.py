"""
A semi-Markov segmenter (Sarawagi and Cohen 2004): a structure and groups of one's own
======================================================================================
"""

import numpy as np

from omkl import StructuredPredictor
from omkl.groups import ExplicitBank, Features, Tokens
from omkl.structures import Structure, UnaryPotentials

LONGEST = 4
LABELS = 2
COLUMNS = 3  # of a token: two that tell its label, and one of noise


class SemiMarkov(Structure):
    """Segmentations: rows ``(stop, length, label)``.

    Potential ``t * LONGEST + l`` is of l + 1 tokens up to t.
    """

    def zeros(self, size):
        return UnaryPotentials(np.zeros((size, LABELS)))

    def decode(self, potentials):
        scores = potentials.unary.reshape(-1, LONGEST, LABELS)
        best = [0.0]
        last = []
        for t, ending in enumerate(scores):
            lengths = range(min(LONGEST, t + 1))
            totals = [best[t - length] + ending[length].max() for length in lengths]
            best.append(max(totals))
            length = int(np.argmax(totals))
            last.append((t + 1, length + 1, int(ending[length].argmax())))
        segments = []
        t = len(scores)
        while t > 0:
            segments.append(last[t - 1])
            t -= segments[-1][1]
        return np.array(segments[::-1])

    def indicator(self, output):
        potentials = self.zeros(output[-1, 0] * LONGEST)
        potentials.unary[(output[:, 0] - 1) * LONGEST + output[:, 1] - 1, output[:, 2]] = 1.0
        return potentials

    def cost_potentials(self, gold):
        """Count the tokens of each segment whose gold label differs."""
        wrong = np.repeat(gold[:, 2], gold[:, 1])[:, None] != np.arange(LABELS)
        n_wrong = np.vstack([np.zeros(LABELS), np.cumsum(wrong, axis=0)])
        return UnaryPotentials(segment_sums(n_wrong))


def segment_sums(cumulated):
    """Compute sums over all segments from cumulative sums over tokens."""
    stops = np.repeat(np.arange(1, len(cumulated)), LONGEST)
    starts = np.maximum(stops - 1 - np.tile(np.arange(LONGEST), len(cumulated) - 1), 0)
    return cumulated[stops] - cumulated[starts]


def encode(sentence):
    """Encode all segments of a sentence as an array (n, COLUMNS)."""
    before = np.vstack([np.zeros(COLUMNS), np.cumsum(sentence, axis=0)])
    features = np.hstack([segment_sums(before), np.tile(np.eye(LONGEST), (len(sentence), 1))])
    ids = np.tile(np.arange(features.shape[1], dtype=np.int32), len(features))
    starts = np.arange(0, features.size + 1, features.shape[1])
    segments = Features(starts, ids, features.ravel())
    return Tokens(np.array([0, len(features)]), segments).everything()


def sentences(n, rng):
    """Draw sentences of segments of one or two tokens (label 0), or of three or four (label 1)."""
    X = []
    y = []
    for _ in range(n):
        labels = rng.integers(0, LABELS, rng.integers(2, 6))
        lengths = 1 + 2 * labels + rng.integers(0, 2, len(labels))
        tokens = np.repeat(np.eye(COLUMNS)[labels], lengths, axis=0)
        X.append(encode(tokens + rng.normal(0, 0.6, tokens.shape)))
        y.append(np.column_stack([np.cumsum(lengths), lengths, labels]))
    return X, y


def segmenter(**options):
    """Return an untrained segmenter with three groups of features."""
    groups = [0, 0, 1, 2, 2, 2, 2]
    bank = ExplicitBank(["tokens", "noise", "length"], groups, LABELS, averaging=True)
    return StructuredPredictor(SemiMarkov(), [bank], random_state=0, **options)


if __name__ == "__main__":
    model = segmenter(epochs=10).fit(*sentences(200, np.random.default_rng(0)))
    print(model.kernel_weights_, "score", model.score(*sentences(200, np.random.default_rng(1))))
