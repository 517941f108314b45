"""Random treebanks whose trees depend on known templates."""

from collections.abc import Sequence

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
_MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)
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
    sizes = {"n_sentences": n_sentences, "vocabulary": vocabulary, "mean_length": mean_length}
    for name, size in {**sizes, "len(informative)": len(informative)}.items():
        check_number(name, size, least=1)
    templates = [_parsed(text) for text in informative]
    rng = np.random.default_rng(random_state)
    fields = _field_values(rng, vocabulary)
    sums = {name: np.cumsum(shares / shares.sum())[:-1] for name, (_, shares) in fields.items()}
    weights = rng.standard_normal((len(templates), 1 << _BITS))
    relations = rng.integers(len(RELATIONS), size=(len(UPOS) + 1, len(UPOS) + 1))
    structure = ProjectiveTree() if projective else NonProjectiveTree()
    sentences = []
    for n in 1 + rng.poisson(mean_length - 1, size=n_sentences):
        # code 0 is the root's, code k is value k - 1
        codes = {
            name: np.append(0, np.searchsorted(own, rng.random(n), "right") + 1)
            for name, own in sums.items()
        }
        scores = sum(table[_features(t, codes, n)] for t, table in zip(templates, weights))
        heads = structure.decode(scores + TEMPERATURE * rng.gumbel(size=scores.shape))
        columns = {
            name: [values[code - 1] for code in codes[name][1:]]
            for name, (values, _) in fields.items()
        }
        chosen, arbitrary = (
            relations[codes["upos"][heads], codes["upos"][1:]],
            rng.random(n) < RELATION_NOISE,
        )
        chosen = np.where(arbitrary, rng.integers(len(RELATIONS), size=n), chosen)
        deprels = [
            "root" if head == 0 else RELATIONS[relation] for head, relation in zip(heads, chosen)
        ]
        sentences.append(Sentence(**columns, heads=heads.tolist(), deprels=deprels))
    return Treebank.from_sentences(sentences, trees=True, single_root=True)


def _field_values(rng, vocabulary):
    """Return the values of each field of words, and their frequencies."""
    words = [_word(i) for i in range(2 * vocabulary)]
    rng.shuffle(words)
    falling = 1.0 / (3.0 + np.arange(vocabulary))
    return {
        "forms": (words[:vocabulary], falling),
        "lemmas": (words[vocabulary:], falling),
        "upos": (list(UPOS), np.array(list(UPOS.values()))),
        "xpos": ([f"X{i:02}" for i in range(1, N_XPOS + 1)], 1.0 / (3.0 + np.arange(N_XPOS))),
        "feats": (FEATS, np.ones(len(FEATS))),
    }


def _word(i):
    """Return the i-th artificial word; words are distinct, and have at least two syllables."""
    i += len(_SYLLABLES)
    word = ""
    while i:
        i, syllable = divmod(i, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word


def _parsed(text):
    """Parse a template to (offset, column) pairs of the head, the same of the modifier, and the
    variant.
    """
    template = Template.parse(text)
    if template.between or not template.fields <= set(COLUMN_OF):
        raise InputError(
            f"The informative template {text!r} must look at {', '.join(COLUMN_OF)} of head and modifier."
        )
    head, modifier = (
        [(offset, COLUMN_OF[f]) for offset, f in side]
        for side in (template.head, template.modifier)
    )
    return head, modifier, template.variant


def _features(template, codes, n):
    """Hash the feature of a template at each arc to a number below 2 ** _BITS, (n + 1, n + 1)."""
    of_head, of_modifier, variant = template
    keys = (_folded(of_head, codes, n) * _TURN)[:, None] + _folded(of_modifier, codes, n)
    if variant != "arc":
        gap = (
            np.arange(n + 1) - np.arange(n + 1)[:, None]
        )  # positive where the modifier is to the right
        steps = (
            1
            if variant == "direction"
            else np.searchsorted(DISTANCE_BINS, np.abs(gap), side="right")
        )
        keys += (np.sign(gap) * steps).astype(np.uint64)
    return _mixed(keys) >> np.uint64(64 - _BITS)


def _folded(atoms, codes, n):
    """Hash the codes at the atoms' offsets from each node; positions outside of the sentence have
    code -1.
    """
    keys = np.zeros(n + 1, np.uint64)
    for offset, name in atoms:
        at = np.arange(n + 1) + offset
        seen = np.where((at >= 0) & (at <= n), codes[name][np.clip(at, 0, n)], -1)
        keys = _mixed(keys + seen.astype(np.uint64))
    return keys


def _mixed(keys):
    keys = (keys ^ (keys >> _HALF)) * _MIX
    return (keys ^ (keys >> _HALF)) * _TURN
