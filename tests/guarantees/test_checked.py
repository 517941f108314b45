"""guarantee: promises that all kinds of models keep, and what they cost."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.data import Graph, Sentence, Treebank
from omkl.exceptions import DataWarning, InputError
from omkl.guarantees.answers import answers_of, column_of
from omkl.parsing.sentences import strings_of
from omkl.structures.chain import Chain

from ..annotation.made_language import sentences


def words(n, seed):
    """Draw sequences of words whose labels are more or less certain, and entities among them."""
    rng = np.random.default_rng(seed)
    X = []
    y = []
    for _ in range(n):
        length = rng.integers(1, 5)
        kinds = rng.integers(0, 6, length).tolist()
        X.append([f"w{kind}" for kind in kinds])
        y.append([label_of(kind, rng) for kind in kinds])
    return X, y


def label_of(kind, rng):
    """Draw the label of a word: odd kinds are entities, others seldom."""
    return "B-X" if rng.random() < (kind % 2 or 0.04 * kind) else "O"


@pytest.fixture(scope="module")
def labeler():
    return omkl.SequenceLabeler(loss="crf", transitions=None, random_state=0).fit(*words(300, 0))


def are_right(labeler, X, y):
    return [labels == np.array(gold) for labels, gold in zip(labeler.predict(X), y)]


def test_accepted_sequences_tokens_and_entities_are_as_right_as_promised(labeler):
    X, y = words(3000, 1)
    right = are_right(labeler, X, y)
    wrong = np.array([not tokens.all() for tokens in right])
    assert wrong.mean() > 0.07
    accepted = omkl.guarantee(labeler, *words(800, 2)).accept(X, error=0.05)
    assert accepted.dtype == bool
    assert accepted.mean() > 0.4
    assert wrong[accepted].mean() <= 0.05
    for unit in ("token", "entity"):
        accepted = omkl.guarantee(labeler, *words(800, 2), unit=unit).accept(X, error=0.02)
        shares = [1.0 - tokens[good].mean() for tokens, good in zip(right, accepted) if good.any()]
        assert np.mean(shares) <= 0.02
        assert len(shares) > 1000
        if unit == "entity":
            labels = np.concatenate(labeler.predict(X))
            assert set(labels[np.concatenate(accepted)]) == {"B-X"}


def share_covered(sets, gold):
    """Return the share of labels that are in the set of their token."""
    return np.mean([label in labels for label, labels in zip(gold, sets)])


def test_sets_hold_the_labels_of_whole_sequences_or_of_tokens(labeler):
    X, y = words(3000, 3)
    by_sequence = omkl.guarantee(labeler, *words(800, 2)).sets(X, miss=0.1)
    assert np.mean(np.array(list(map(share_covered, by_sequence, y))) == 1.0) >= 0.88
    by_token = omkl.guarantee(labeler, *words(800, 2), unit="token").sets(X, miss=0.02)
    assert np.mean(list(map(share_covered, by_token, y))) >= 0.97
    for sets in (by_sequence, by_token):
        assert 1.0 < np.mean(list(map(len, itertools.chain(*sets)))) < 1.9
    labeler.predict(X[:5], labels=by_sequence[:5])  # sets are constraints


def test_an_output_is_as_sure_as_its_probability_among_all_labellings():
    X, y = words(100, 4)
    model = omkl.SequenceLabeler(random_state=0).fit(X, y).calibrate(*words(50, 5))
    from omkl.sequences.labeling import potentials_of

    x = max(X, key=len)
    [answer] = answers_of(model, [x])
    [potentials] = potentials_of(model.model_, [x])
    outputs = map(np.array, itertools.product(range(2), repeat=len(x)))
    scores = [model.structure_.score(potentials, labels) for labels in outputs]
    factors = np.exp(np.array(scores) / model.temperature_)
    assert answer.sure == pytest.approx(factors.max() / factors.sum())
    assert answer.labels.tolist() == model.predict([x])[0].tolist()
    assert_allclose(answer.values, model.predict_marginals([x])[0])


def test_calibrating_decodes_and_encodes_each_example_once(labeler, monkeypatch):
    X, y = words(60, 6)
    counts = {"decode": 0, "encode": 0}
    decode = Chain.decode
    encoder = labeler.model_.codec.encoder
    encode = encoder.encode

    def counted(self, potentials):
        counts["decode"] += 1
        return decode(self, potentials)

    def counted_tokens(tokens, *others):
        counts["encode"] += len(tokens)
        return encode(tokens, *others)

    monkeypatch.setattr(Chain, "decode", counted)
    monkeypatch.setattr(encoder, "encode", counted_tokens)
    omkl.guarantee(labeler, X, y)
    assert counts == {"decode": 60, "encode": sum(map(len, X))}


def test_a_graph_is_as_sure_as_a_chain_with_the_same_scores():
    X, y = words(200, 7)
    graphs = [Graph(x, [(i, i + 1) for i in range(len(x) - 1)]) for x in X]
    model = omkl.GraphLabeler(loss="crf", random_state=0).fit(graphs, y)
    checked = omkl.guarantee(model, graphs, y, unit="token")
    accepted = checked.accept(graphs[:50], error=0.1)
    assert list(map(len, accepted)) == list(map(len, X[:50]))
    for answer, marginals in zip(
        answers_of(model, graphs[:20]), model.predict_marginals(graphs[:20])
    ):
        assert_allclose(answer.tokens, marginals.max(axis=1), atol=1e-9)
        assert answer.sure <= answer.tokens.min() + 1e-9


# ---- rows ----------------------------------------------------------------------------------------


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(
        X[:, 0] + 0.4 * rng.normal(size=n) > 0,
        "yes",
        "no",
    )


@pytest.mark.parametrize(
    "model", [omkl.OnlineMKLClassifier(random_state=0), omkl.MKLClassifierCV(["linear"], Cs=3)]
)
def test_accepted_classes_are_as_right_as_promised_and_files_keep_the_promise(model, tmp_path):
    X, y = rows(3000, 0)
    checked = omkl.guarantee(model.fit(*rows(300, 1)), *rows(500, 2))
    accepted = checked.accept(X, error=0.05)
    assert accepted.mean() > 0.3
    assert np.mean(model.predict(X)[accepted] != y[accepted]) <= 0.05
    sets = checked.sets(X, miss=0.05)
    assert share_covered(sets, y) == pytest.approx(0.95, abs=0.03)
    checked.save(tmp_path / "checked.npz")
    loaded = omkl.load(tmp_path / "checked.npz")
    assert_array_equal(loaded.accept(X, error=0.05), accepted)
    assert loaded.sets(X, miss=0.05) == sets
    assert loaded.curve() == checked.curve()
    assert loaded.unit == "output"
    assert loaded.confidence == 0.9
    assert type(loaded.model) is type(model)


def answers_to_questions(n, seed):
    """Draw rows of four yes/no columns, of which all values occur in any few hundred rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(n, 4)).astype(float)
    return X, 2.0 * X[:, 0] + X[:, 1] + rng.normal(scale=0.5, size=n) > 1.5


@pytest.mark.parametrize("kernels", [None, ["gaussian"]])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("of_numbers", [False, True])
def test_new_rows_of_discrete_columns_are_accepted(kernels, batch, of_numbers):
    classes = {
        (False, False): omkl.OnlineMKLClassifier,
        (False, True): omkl.OnlineMKLRegressor,
        (True, False): omkl.MKLClassifier,
        (True, True): omkl.MKLRegressor,
    }
    model = classes[batch, of_numbers](kernels)
    if not batch:
        model.set_params(random_state=0)
    X, y = answers_to_questions(300, 0)
    checked = omkl.guarantee(model.fit(X, y), *answers_to_questions(400, 1))
    X, y = answers_to_questions(2000, 2)
    sets = checked.sets(X, miss=0.1)
    if of_numbers:
        covered = np.mean((sets[:, 0] <= y) & (y <= sets[:, 1]))
    else:
        covered = share_covered(sets, y.tolist())
        accepted = checked.accept(X, error=0.15)
        assert accepted.mean() > 0.3
        assert np.mean(model.predict(X)[accepted] != y[accepted]) <= 0.15
    assert covered >= 0.87
    checked.partial_fit(*answers_to_questions(50, 3))
    assert checked.levels_.keys() == {0.1}


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("model", [omkl.OnlineMKLRegressor(random_state=0), omkl.MKLRegressor()])
def test_intervals_cover_numbers_as_often_as_promised(model):
    X, y = numbers(2000, 0)
    checked = omkl.guarantee(model.fit(*numbers(200, 1)), *numbers(400, 2))
    low, high = checked.sets(X, miss=0.1).T
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.04)
    assert np.median(high - low) == pytest.approx(2 * 1.645 * 0.3, rel=0.15)
    with pytest.raises(InputError, match="intervals"):
        checked.accept(X, error=0.1)


# ---- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("adversary", ["outside", "inside", "alternating"])
def test_intervals_miss_as_often_as_promised_on_adversarial_sequences(adversary):
    """Gibbs and Candes: misses differ from ``miss`` by a share of at most (1 + rate) / (rate T)."""
    model = omkl.MKLRegressor(["linear"]).fit(*numbers(50, 3))
    checked = omkl.guarantee(model, *numbers(30, 4))
    X, _ = numbers(300, 5)
    missed = 0
    for i, x in enumerate(X[:, None]):
        [[low, high]] = checked.sets(x, miss=0.2)
        is_outside = adversary == "outside" or (adversary == "alternating" and i // 50 % 2)
        y = 0.5 * (low + high) if np.isfinite(low) else 0.0
        if is_outside and high < np.inf:
            y = high + 1.0
        missed += not low <= y <= high
        checked.partial_fit(x, [y], miss=0.2, rate=0.1)
    assert abs(missed / 300 - 0.2) <= 1.1 / (0.1 * 300)
    assert checked.n_examples_ == 30
    assert len(checked.lengths_) == 30
    with pytest.raises(InputError, match="sample_weight is not used"):
        checked.partial_fit(X[:1], [0.0], sample_weight=[2.0])


def test_a_stream_that_changes_is_covered_and_learned():
    def drifting(n, seed, turned):
        X, y = numbers(n, seed)
        slope = -3.0 if turned else 1.0
        return X, slope * y

    model = omkl.OnlineMKLRegressor(["linear"], random_state=0).partial_fit(
        *drifting(300, 6, False)
    )
    still, moving = (omkl.guarantee(model, *drifting(100, 7, False)) for _ in range(2))
    X, y = drifting(600, 8, True)
    rates = []
    for checked in (still, moving):
        covered = []
        for part in np.split(np.arange(600), 30):
            low, high = checked.sets(X[part], miss=0.1).T
            covered += ((low <= y[part]) & (y[part] <= high)).tolist()
            if checked is moving:
                moving.partial_fit(
                    X[part],
                    y[part],
                    miss=0.1,
                    rate=0.05,
                )
        rates.append(np.mean(covered))
    assert rates[0] < 0.6
    assert rates[1] > 0.8
    with pytest.raises(InputError):
        moving.accept(X, error=0.1)


# ---- sentences -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def treebanks():
    """Return treebanks in which half of the adjectives modify the verb, by chance."""
    rng = np.random.default_rng(0)
    all_sentences = sentences(700)
    for sentence in all_sentences:
        if sentence.upos[1] == "ADJ" and rng.random() < 0.5:
            sentence.heads[1] = 4
    trees = Treebank.from_sentences(all_sentences)
    return trees[:200], trees[200:300], trees[300:500], trees[500:]


#: A few templates for a parser of each order.
TEMPLATES = {1: "small", 2: ["h.form m.form", "h.upos m.upos distance", "g.upos h.upos m.upos"]}


@pytest.fixture(scope="module", params=[1, 2])
def calibrated_parser(request, treebanks):
    train, dev, _, _ = treebanks
    order = request.param
    parser = omkl.DependencyParser(
        TEMPLATES[order], epochs=2, memory=10, random_state=0, search=omkl.TreeSearch(order=order)
    )
    return parser.fit(train).calibrate(dev)


def test_answers_of_a_parser_are_its_trees(calibrated_parser, treebanks):
    test = treebanks[-1]
    parsed = calibrated_parser.parse(test)
    answers = list(answers_of(calibrated_parser, test))
    heads = np.concatenate([answer.labels for answer in answers])
    assert_array_equal(heads, parsed.heads)
    all_marginals = calibrated_parser.predict_marginals(test)
    for answer, marginals, heads in zip(answers, all_marginals, parsed.trees()):
        arcs = marginals.arcs[heads, np.arange(1, len(heads) + 1)]
        assert_allclose(
            answer.tokens,
            arcs * marginals.relations.max(axis=1),
            rtol=1e-6,
        )
        assert answer.sure == pytest.approx(answer.tokens.prod())
    wrong = parsed.heads != test.heads
    wrong |= np.array(strings_of(parsed, "deprels")) != strings_of(test, "deprels")
    compared = answers_of(calibrated_parser, test, compare=True)
    assert_array_equal(np.concatenate([answer.wrong for answer in compared]), wrong)


def test_accepted_trees_and_arcs_are_as_right_as_promised(calibrated_parser, treebanks, tmp_path):
    _, _, calibration, test = treebanks
    parser = calibrated_parser
    checked = omkl.guarantee(parser, calibration)
    accepted = checked.accept(test, error=0.05)
    compared = answers_of(parser, test, compare=True)
    is_wrong = np.array([answer.wrong.any() for answer in compared])
    assert is_wrong.mean() > 0.15
    assert is_wrong[accepted].mean() <= 0.05
    assert accepted.mean() > 0.3
    by_head = omkl.guarantee(parser, calibration, column="heads", unit="token")
    sets = by_head.sets(test, miss=0.1)
    assert np.mean(list(map(share_covered, sets, test.trees()))) >= 0.85
    checked.save(tmp_path / "parser.npz", training=False)
    loaded = omkl.load(tmp_path / "parser.npz")
    assert loaded.curve() == checked.curve()
    assert_array_equal(loaded.accept(test, error=0.05), accepted)


def test_each_column_of_an_annotator_has_a_guarantee(tmp_path):
    train, dev, calibration, test = (
        Treebank.from_sentences(sentences(n, seed=n)) for n in (150, 30, 80, 40)
    )
    parser = omkl.DependencyParser("small", epochs=2, memory=10)
    model = omkl.Annotator(parser=parser, tagger=omkl.SequenceLabeler(epochs=2), random_state=0)
    model.fit(train).calibrate(dev)
    annotated = model.annotate(test)
    for column in ("upos", "feats", "lemmas", "heads", "deprels", None):
        checked = omkl.guarantee(model, calibration, column=column, unit="token")
        accepted = checked.accept(test, error=0.3)
        assert list(map(len, accepted)) == test.lengths.tolist()
        if column is not None:
            compared = answers_of(model, test, None, column, compare=True)
            wrong = np.concatenate([answer.wrong for answer in compared])
            expected = column_of(test, column) != column_of(annotated, column)
            assert_array_equal(wrong, expected)
    [first, *_] = omkl.guarantee(model, calibration, column="upos").sets(test, miss=0.1)
    assert {type(labels) for labels in first} == {set}
    with pytest.raises(InputError):
        omkl.guarantee(model, calibration, column="lemmas").sets(test, miss=0.1)
    checked.save(tmp_path / "annotator.npz")
    loaded = omkl.load(tmp_path / "annotator.npz").accept(test, error=0.3)
    assert_array_equal(np.concatenate(loaded), np.concatenate(accepted))


# ---- bad input -----------------------------------------------------------------------------------


def test_too_few_examples_are_refused_with_the_number_that_is_needed(labeler):
    checked = omkl.guarantee(labeler, *words(20, 8))
    with pytest.raises(InputError, match="at least 45 calibration examples, got 20"):
        checked.accept([["w1"]], error=0.05)
    with pytest.raises(InputError, match="at least 99 calibration examples, got 20"):
        checked.sets([["w1"]], miss=0.01)
    hopeless = omkl.guarantee(
        labeler,
        [["w1"]] * 50,
        [["O"]] * 50,
    )
    with pytest.warns(DataWarning, match="No output is accepted"):
        assert not hopeless.accept([["w1"]], error=0.05).any()


def test_unknown_labels_count_as_wrong(labeler):
    with pytest.warns(DataWarning, match="does not know"):
        checked = omkl.guarantee(
            labeler,
            [["w1"]] * 30,
            [["B-NEW"]] * 30,
        )
    assert checked.curve()[-1]["error"] == 1.0


HINGE = omkl.SequenceLabeler(random_state=0)
REFUSED = {
    "confidence": lambda labeler: omkl.guarantee(labeler, *words(30, 9), confidence=1.0),
    "unit": lambda labeler: omkl.guarantee(labeler, *words(30, 9), unit="word"),
    "column": lambda labeler: omkl.guarantee(labeler, *words(30, 9), column="upos"),
    "error": lambda labeler: omkl.guarantee(labeler, *words(30, 9)).accept([["w1"]], error=0.0),
    "miss": lambda labeler: omkl.guarantee(labeler, *words(30, 9)).sets([["w1"]], miss=5),
    "calibrate": lambda labeler: omkl.guarantee(HINGE.fit(*words(30, 9)), *words(30, 9)),
    "logistic": lambda labeler: omkl.guarantee(
        omkl.MKLClassifier(loss="hinge").fit(*rows(30, 0)), *rows(30, 1)
    ),
    "crf": lambda labeler: omkl.guarantee(
        omkl.OnlineMKLClassifier(loss="hinge").fit(*rows(30, 0)), *rows(30, 1)
    ),
    "label of every token": lambda labeler: omkl.guarantee(labeler, [["w1", "w2"]], [["O", None]]),
    "mark entities": lambda labeler: omkl.guarantee(labeler, [["w1"]], [["noun"]], unit="entity"),
    "one output": lambda labeler: omkl.guarantee(
        omkl.MKLClassifier().fit(*rows(30, 0)), rows(30, 1)[0], ["no"]
    ),
    "not fitted": lambda labeler: omkl.guarantee(omkl.MKLClassifier(), *rows(30, 0)),
    "got none": lambda labeler: omkl.guarantee(labeler, iter([])),
    "of omkl": lambda labeler: omkl.guarantee("labeler", *words(30, 9)),
}


@pytest.mark.parametrize("said", REFUSED)
def test_bad_input_is_refused(labeler, said):
    with pytest.raises(InputError, match=said):
        REFUSED[said](labeler)


def test_a_refused_block_of_a_stream_changes_nothing(monkeypatch):
    checked = omkl.guarantee(
        omkl.OnlineMKLRegressor(["linear"], random_state=0).fit(*numbers(30, 3)), *numbers(30, 4)
    )
    before = checked.scores_.copy()

    def refuse(X, y):
        raise InputError("refused")

    monkeypatch.setattr(checked.model, "partial_fit", refuse)
    with pytest.raises(InputError, match="refused"):
        checked.partial_fit(*numbers(5, 5))
    assert_array_equal(checked.scores_, before)
    assert checked.levels_ == {}


def test_sentences_without_the_column_are_refused(treebanks):
    parser = omkl.DependencyParser(
        "small", epochs=1, memory=5, random_state=0, search=omkl.TreeSearch(order=1)
    )
    parser.fit(treebanks[0][:50]).calibrate(treebanks[1][:20])
    with pytest.raises(InputError):
        omkl.guarantee(parser, [Sentence(forms=["a", "b"])])
