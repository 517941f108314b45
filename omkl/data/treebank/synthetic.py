"""Random treebanks whose trees depend on known templates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from omkl._components import check_number
from omkl.data.treebank.treebank import Sentence, Treebank
from omkl.exceptions import InputError
from omkl.groups.templates.language import DISTANCE_BINS, Template
from omkl.structures.trees.arc_factored import NonProjectiveTree, ProjectiveTree

#: Default templates that determine the heads.
INFORMATIVE = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
UPOS = {
    "NOUN": 24,
    "VERB": 16,
    "ADP": 12,
    "DET": 11,
    "PRON": 9,
    "ADJ": 8,
    "ADV": 7,
    "PROPN": 6,
    "AUX": 4,
    "CCONJ": 3,
}
N_XPOS = 20
#: All four combinations of two attributes are equally frequent.
FEATS = [f"Case={case}|Number={number}" for case in ("Acc", "Nom") for number in ("Plur", "Sing")]
RELATIONS = (
    "nsubj",
    "obj",
    "obl",
    "nmod",
    "amod",
    "advmod",
    "case",
    "det",
    "conj",
    "cc",
    "aux",
    "xcomp",
)
RELATION_NOISE = 0.05
#: Scale of the noise; decoding without noise recovers about 84% of the heads.
TEMPERATURE = 0.2
#: Column of a sentence for each field of a template.
COLUMN_OF = {"form": "forms", "lemma": "lemmas", "upos": "upos", "xpos": "xpos", "feats": "feats"}
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
#: Multipliers and shift of the hash function.
_MIX = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
#: An informative template has 2 ** _BITS weights; hash collisions of its features are rare and
#: harmless.
_BITS = 14


def synthetic_treebank(
    n_sentences: int = 1000,
    *,
    informative: Sequence[str] = INFORMATIVE,
    vocabulary: int = 30,
    mean_length: float = 12,
    projective: bool = False,
    random_state: int | np.random.Generator | None = 0,
) -> Treebank:
    """Make a treebank whose trees depend on a few templates.

    Every field of every word is drawn independently. Each feature of an informative template ("the
    head is a VERB, the modifier is a NOUN to its left") gets a weight from a standard normal
    distribution. The score of an arc is the sum of the weights of its features plus Gumbel noise
    (perturb-and-MAP [1]_). The tree is the highest-scoring one in which the root has a single
    child. All other templates are uninformative, by default those of forms and morphology.

    Parameters
    ----------
    n_sentences : int
    informative : sequence of str
        Templates (:class:`~omkl.groups.templates.language.Template`) over the fields ``form``,
        ``lemma``, ``upos``, ``xpos`` and ``feats``, with ``direction`` or ``distance``.
    vocabulary : int
        Number of distinct lemmas, and of distinct forms. Frequencies decrease with rank, as in
        natural language.
    mean_length : float
        Mean number of words of a sentence, at least 1. Lengths minus 1 follow a Poisson
        distribution.
    projective : bool
        Whether to forbid crossing arcs. By default, most sentences have crossing arcs.
    random_state : int, Generator or None

    Returns
    -------
    Treebank
        All columns but MISC are filled. Relations depend on the UPOS of head and modifier, except
        for one in 20, which is drawn uniformly. Slices of the treebank have the same grammar, for
        training and testing.

    Raises
    ------
    omkl.exceptions.InputError
        If a parameter is out of range, or a template is invalid.

    References
    ----------
    .. [1] G. Papandreou and A. Yuille, "Perturb-and-MAP random fields", ICCV 2011.

    Examples
    --------
    >>> treebank = synthetic_treebank(50)
    >>> train, test = treebank[:40], treebank[40:]
    >>> train
    Treebank(40 sentences, 460 words)
    """
    check_number("n_sentences", n_sentences, least=1)
    check_number("vocabulary", vocabulary, least=1)
    check_number("mean_length", mean_length, least=1)
    check_number("len(informative)", len(informative), least=1)
    grammar = _Grammar(informative, vocabulary, np.random.default_rng(random_state))
    lengths = 1 + grammar.rng.poisson(mean_length - 1, size=n_sentences)
    structure = ProjectiveTree() if projective else NonProjectiveTree()
    sentences = [grammar.draw(n, structure) for n in lengths]
    return Treebank.from_sentences(sentences, trees=True, single_root=True)


class _Grammar:
    """Random distribution of sentences.

    Attributes
    ----------
    fields : dict of str to _Field
        Values of the columns of words.
    templates : list of Template
    weights : array of shape (n_templates, 2 ** _BITS)
        Weights of their features.
    relations : int array of shape (n_upos + 1, n_upos + 1)
        Relation by the codes of the UPOS of head and modifier.
    """

    def __init__(self, informative: Sequence[str], vocabulary: int, rng: np.random.Generator):
        self.rng = rng
        self.templates = [_parsed(text) for text in informative]
        self.fields = _random_fields(rng, vocabulary)
        self.weights = rng.standard_normal((len(self.templates), 1 << _BITS))
        n_upos = len(UPOS)
        self.relations = rng.integers(len(RELATIONS), size=(n_upos + 1, n_upos + 1))

    def draw(self, n: int, structure: NonProjectiveTree | ProjectiveTree) -> Sentence:
        """Draw a sentence of n words."""
        codes = {}
        columns = {}
        for name, column in self.fields.items():
            codes[name] = column.draw(n, self.rng)
            columns[name] = [column.values[code - 1] for code in codes[name][1:]]
        scores = 0.0
        for template, weights in zip(self.templates, self.weights):
            scores = scores + weights[_features(template, codes, n)]
        noise = TEMPERATURE * self.rng.gumbel(size=(n + 1, n + 1))
        heads = structure.decode(scores + noise)
        relations = self.relations[codes["upos"][heads], codes["upos"][1:]]
        is_noise = self.rng.random(n) < RELATION_NOISE
        relations = np.where(is_noise, self.rng.integers(len(RELATIONS), size=n), relations)
        deprels = []
        for head, relation in zip(heads, relations):
            deprels.append("root" if head == 0 else RELATIONS[relation])
        return Sentence(**columns, heads=heads.tolist(), deprels=deprels)


class _Field(NamedTuple):
    """Values of a column of words, and their frequencies."""

    values: list[str]
    frequencies: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the codes of n words, (n + 1,): 0 of the root, and k of the value k - 1."""
        bounds = np.cumsum(self.frequencies / self.frequencies.sum())[:-1]
        return np.append(0, np.searchsorted(bounds, rng.random(n), "right") + 1)


def _random_fields(rng: np.random.Generator, vocabulary: int) -> dict[str, _Field]:
    """Return the values of each field of words, with random words."""
    words = [_word(i) for i in range(2 * vocabulary)]
    rng.shuffle(words)
    falling = 1.0 / (3.0 + np.arange(vocabulary))
    return {
        "forms": _Field(words[:vocabulary], falling),
        "lemmas": _Field(words[vocabulary:], falling),
        "upos": _Field(list(UPOS), np.array(list(UPOS.values()))),
        "xpos": _Field([f"X{i:02}" for i in range(1, N_XPOS + 1)], 1.0 / (3.0 + np.arange(N_XPOS))),
        "feats": _Field(FEATS, np.ones(len(FEATS))),
    }


def _word(i: int) -> str:
    """Return the i-th artificial word; words are distinct, and have at least two syllables."""
    i += len(_SYLLABLES)
    word = ""
    while i:
        i, syllable = divmod(i, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word


def _parsed(text: str) -> Template:
    """Parse an informative template."""
    template = Template.parse(text)
    if template.between or not template.fields <= set(COLUMN_OF):
        raise InputError(
            f"The informative template {text!r} must look at {', '.join(COLUMN_OF)} of head and "
            "modifier."
        )
    return template


def _features(template: Template, codes: Mapping[str, np.ndarray], n: int) -> np.ndarray:
    """Hash the feature of a template at each arc to a number below 2 ** _BITS, (n + 1, n + 1)."""
    keys_of_heads = _hashed(template.head, codes, n) * _TURN
    keys = keys_of_heads[:, None] + _hashed(template.modifier, codes, n)
    if template.variant != "arc":
        nodes = np.arange(n + 1)
        distance = nodes - nodes[:, None]  # positive where the modifier is to the right
        direction = np.sign(distance)
        if template.variant != "direction":
            direction *= np.searchsorted(DISTANCE_BINS, np.abs(distance), side="right")
        keys += direction.astype(np.uint64)
    return _mixed(keys) >> np.uint64(64 - _BITS)


def _hashed(
    atoms: Iterable[tuple[int, str]], codes: Mapping[str, np.ndarray], n: int
) -> np.ndarray:
    """Hash the codes at the atoms' offsets from each node, (n + 1,).

    Positions outside of the sentence have code -1.
    """
    keys = np.zeros(n + 1, np.uint64)
    for offset, field in atoms:
        positions = np.arange(n + 1) + offset
        is_inside = (positions >= 0) & (positions <= n)
        codes_of_field = codes[COLUMN_OF[field]][np.clip(positions, 0, n)]
        keys = _mixed(keys + np.where(is_inside, codes_of_field, -1).astype(np.uint64))
    return keys


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Mix the bits of each key."""
    keys = (keys ^ (keys >> _HALF)) * _MIX
    return (keys ^ (keys >> _HALF)) * _TURN
