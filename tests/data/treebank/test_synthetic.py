"""Synthetic treebanks: valid trees, predicted by their informative templates only."""

import itertools

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression

from omkl.data import read_treebank, synthetic_treebank, write_treebank
from omkl.data.treebank import synthetic
from omkl.exceptions import InputError
from omkl.groups.templates import language

from .treebank_files import is_tree

NOISE = ("h.form m.form direction", "h.feats m.feats direction", "m.form direction", "h-1.form h.feats")


def crosses(heads):
    arcs = [tuple(sorted(arc)) for arc in enumerate(heads, 1)]
    return any(a < b < c < d for (a, c), (b, d) in itertools.permutations(arcs, 2))


@pytest.mark.parametrize("projective", [False, True])
def test_every_sentence_is_a_tree_with_one_root(projective):
    treebank = synthetic_treebank(100, mean_length=8, projective=projective)
    assert len(treebank) == 100
    assert all(is_tree(sentence.heads) and sentence.heads.count(0) == 1 for sentence in treebank)
    assert treebank.lengths.min() >= 1
    assert treebank.lengths.mean() == pytest.approx(8, abs=4 * np.sqrt(7 / 100))
    crossing = sum(crosses(sentence.heads) for sentence in treebank)
    assert crossing == 0 if projective else 30 < crossing < 100


def test_the_same_seed_makes_the_same_treebank():
    def heads(random_state):
        return synthetic_treebank(50, random_state=random_state).heads.tolist()

    assert heads(3) == heads(3) == heads(np.random.default_rng(3))
    assert heads(4) != heads(3)


def test_a_written_treebank_is_read_as_it_was(tmp_path):
    treebank = synthetic_treebank(50)
    path = tmp_path / "made-up.conllu.gz"
    write_treebank(path, treebank)
    back = read_treebank(path, single_root=True)
    assert [s.__getstate__() for s in back] == [s.__getstate__() for s in treebank]


def test_every_field_is_filled_and_relations_follow_from_tags():
    treebank = synthetic_treebank(1000)
    for name in ("forms", "lemmas", "upos", "xpos", "feats", "deprels"):
        assert getattr(treebank, name).min() > 0
    assert len(treebank.strings["lemmas"]) == len(treebank.strings["forms"]) == 30 + 1
    of_tags = {}
    for sentence in treebank:
        for head, tag, relation in zip(sentence.heads, sentence.upos, sentence.deprels):
            assert (relation == "root") == (head == 0)
            if head:
                of_tags.setdefault((sentence.upos[head - 1], tag), []).append(relation)
    usual = sum(max(map(relations.count, relations)) for relations in of_tags.values())
    assert 0.94 < usual / sum(map(len, of_tags.values())) < 0.98


def test_the_informative_templates_tell_the_head_and_the_others_do_not():
    treebank = synthetic_treebank(250, mean_length=8)
    train, test = treebank[:200], treebank[200:]
    informed = _accuracy(synthetic.INFORMATIVE, train, test)
    each = [_accuracy([template], train, test) for template in synthetic.INFORMATIVE]
    chance = len(test) / test.n_words  # one of n candidates for each of n words
    assert _accuracy(NOISE, train, test) < chance + 0.05
    assert min(each) > chance + 0.1
    assert informed > max(each) + 0.2


def _accuracy(templates, train, test):
    """Share of the heads found by logistic regression of "is it the head?" on the templates' features."""
    templates = [language.Template.parse(template) for template in templates]
    hasher = FeatureHasher(2**16, input_type="string", alternate_sign=False)
    gold = [is_head for sentence in train for _, _, is_head in _candidates(sentence)]
    model = LogisticRegression(C=1.0, max_iter=200).fit(hasher.transform(_rows(templates, train)), gold)
    scores = iter(model.decision_function(hasher.transform(_rows(templates, test))).tolist())
    right = 0
    for sentence in test:
        scored = [(next(scores), is_head) for _, _, is_head in _candidates(sentence)]
        right += sum(max(scored[i : i + len(sentence)])[1] for i in range(0, len(scored), len(sentence)))
    return right / test.n_words


def _candidates(sentence):
    words = range(1, len(sentence) + 1)
    return ((h, m, sentence.heads[m - 1] == h) for m in words for h in (0, *words) if h != m)


def _rows(templates, treebank):
    return (
        [_feature(t, sentence, h, m) for t in templates] for sentence in treebank for h, m, _ in _candidates(sentence)
    )


def _feature(template, sentence, h, m):
    def at(i, field):
        column = getattr(sentence, synthetic.COLUMN_OF[field])
        return column[i - 1] if 1 <= i <= len(column) else "root" if i == 0 else "outside"

    parts = [at(h + offset, field) for offset, field in template.head]
    parts += [at(m + offset, field) for offset, field in template.modifier]
    if template.variant != "arc":
        parts.append(str(h < m))
    if template.variant == "distance":
        parts.append(str(np.searchsorted(language.DISTANCE_BINS, abs(h - m), side="right")))
    return " ".join([template.atoms, *parts])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_sentences": 0}, "n_sentences must be"),
        ({"mean_length": 0.5}, "mean_length must be"),
        ({"vocabulary": 0}, "vocabulary must be"),
        ({"informative": []}, "informative"),
        ({"informative": ["h.suffix3 m.upos"]}, "must look at form, lemma"),
        ({"informative": ["direction distance"]}, "'distance' is not an atom"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        synthetic_treebank(**wrong)
