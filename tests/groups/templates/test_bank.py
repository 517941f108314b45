"""The template language, and the bank of arc templates against the literal Algorithm 1.

The literal algorithm learns weights of features that have names.
"""

import itertools
import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.testing import assert_allclose, assert_array_equal

from omkl.data import Sentence, Treebank
from omkl.exceptions import InputError
from omkl.groups import ArcTemplateBank, Template, TemplateSet
from omkl.groups.templates.bank import largest
from omkl.groups.templates.layout import ArcGuide
from omkl.losses import CRF, StructuredHinge
from omkl.online import InverseSqrt, PolynomialAverage, Predictor
from omkl.parsing.decoding import potentials_of
from omkl.parsing.sentences import Guide, encode
from omkl.regularizers import L21, Ridge, SquaredL21
from omkl.structures import NonProjectiveTree, TreePotentials
from omkl.structures.trees.parts import SecondOrderTree

from ...passes import online_trainer

TEMPLATES = TemplateSet(
    [
        "h.upos m.upos",
        "h.upos m.upos direction",
        "h.upos m.upos distance",
        "h-1.upos h.form m.form direction",
        "distance",
        "m.suffix1 m+2.upos",
        "h.upos between.upos m.upos direction",
        "h.Case m.Case between.form",
    ]
)
#: Templates that also describe pairs of arcs.
PARTS = TemplateSet(
    [
        *TEMPLATES,
        "g.upos m.upos",
        "g-1.upos h.upos m.form direction",
        "g.upos h.Case distance",
        "s.upos m.upos",
        "h.upos s.form m+1.upos direction",
        "s.upos m.Case distance",
    ]
)
BINS = (1, 2, 3, 5, 8, 16)


def sentences(n_sentences=8, seed=0):
    """Draw sentences, with ``first_scores``, the scores of a first parser."""
    rng = np.random.default_rng(seed)
    tree = NonProjectiveTree()
    corpus = []
    for _ in range(n_sentences):
        n = int(rng.integers(1, 8))
        forms = ["".join(rng.choice(list("ab"), 2)) for _ in range(n)]
        heads = tree.decode(rng.normal(size=(n + 1, n + 1))).tolist()
        feats = rng.choice(["_", "Case=Nom", "Case=Acc|Number=Sing"], n).tolist()
        upos = rng.choice(["X", "Y", "Z"], n).tolist()
        corpus.append(Sentence(forms=forms, upos=upos, feats=feats, heads=heads))
    for sentence in corpus:
        n_nodes = len(sentence) + 1
        sentence.first_scores = rng.normal(size=(n_nodes, n_nodes)).astype(np.float32)
    return corpus


def guide_of(corpus):
    """Return a guide by which all arcs are candidates, with the scores of a first parser."""
    guides = []
    for sentence in corpus:
        scores = sentence.first_scores
        guides.append(ArcGuide(scores, np.ones(scores.shape, dtype=bool)))
    return Guide(np.zeros(sum(map(len, corpus)), int), guides)


def nodes_of_parts(lists):
    """List the kind, side, head, third node and modifier of every part, by its number.

    None is no node.
    """
    arcs = list(zip(lists.heads.tolist(), lists.modifiers.tolist()))
    nodes = []
    for h, m in arcs:
        for grandparent, head in arcs:
            if head == h:
                side = "left" if m < h else "right"
                nodes.append(("grandparent", side, h, grandparent, m))
    for h in range(len(lists.starts) - 1):
        modifiers = [m for head, m in arcs if head == h]
        modifiers_left = sorted((m for m in modifiers if m < h), reverse=True)
        modifiers_right = sorted(m for m in modifiers if m > h)
        for side, line in (("left", modifiers_left), ("right", modifiers_right)):
            if line:
                pairs = itertools.combinations([None, *line, None], 2)
                nodes += [("sibling", side, h, sibling, m) for sibling, m in pairs]
    return nodes


def field(sentence, name, place):
    """Return the value of a field by the definition of the template language."""
    if place == 0:
        return "ROOT"
    if not 0 < place <= len(sentence):
        return "OUTSIDE"
    form = sentence.forms[place - 1]
    if name == "Case":
        pairs = re.findall(r"(\w+)=(\w+)", sentence.feats[place - 1])
        return dict(pairs).get("Case", "_")
    return {"form": form, "upos": sentence.upos[place - 1], "suffix1": form[-1]}[name]


def values_at(sentence, letter, node, atoms):
    """Return what the atoms of a template see from a node, with the letter of the node."""
    return [(letter, offset, name, field(sentence, name, node + offset)) for offset, name in atoms]


def features(sentence, template, h, m):
    """Return the names of the features of one template that an arc fires."""
    name = values_at(sentence, "h", h, template.head)
    name += values_at(sentence, "m", m, template.modifier)
    if template.variant != "arc":
        name.append("left" if m < h else "right")
    if template.variant == "distance":
        name.append(bin_of(h, m))
    if template.between is None:
        return [tuple(name)]
    tokens_between = range(min(h, m) + 1, max(h, m))
    values = {field(sentence, template.between, token) for token in tokens_between}
    return [(*name, value) for value in sorted(values)]


def bin_of(h, m):
    """Return the number of the bin of a distance."""
    return sum(abs(h - m) >= low for low in BINS)


def is_possible(nodes):
    """A word is not the grandparent of itself."""
    return nodes[-1] is None or nodes[-2] != nodes[-1]


def features_of_part(sentence, template, kind, side, h, third, m):
    """Return the names of the features that a part fires; missing nodes have no values."""
    name = []
    for letter, node, atoms in (
        ("h", h, template.head),
        ("m", m, template.modifier),
        (kind, third, template.third),
    ):
        if node is None:
            name.append(f"no {letter}")
        else:
            name += values_at(sentence, letter, node, atoms)
    if kind == "grandparent":
        name.append((third > h) == (m > h))
    if template.variant != "arc":
        name.append(side)
    if template.variant == "distance":
        name.append("end" if m is None else bin_of(h, m))
    return [tuple(name)]


class NaiveParser:
    """Algorithm 1 and dual averaging with a dictionary of weights for each template."""

    def __init__(self, templates, loss, regularizer, lambda_, rate, method, average):
        self.templates = templates
        self.loss = loss
        self.regularizer = regularizer
        self.lambda_ = lambda_
        self.rate = rate
        self.method = method
        self.average = average
        self.theta = self.zeros()
        self.gradients = self.zeros()
        self.sums = self.zeros()
        self.structure = structure_of(templates)
        self.round = 0
        self.weight = 0.0

    def zeros(self):
        """Return weights of zero for each template."""
        return [defaultdict(float) for _ in self.templates]

    def parts(self, sentence, template, potentials):
        """Yield array, index and features of every arc or part that a template describes."""
        if template.part == "arc":
            for h, m in np.argwhere(~np.eye(len(sentence) + 1, dtype=bool)).tolist():
                if m > 0:
                    yield potentials.arcs, (h, m), features(sentence, template, h, m)
            return
        for number, (kind, *nodes) in enumerate(nodes_of_parts(potentials.lists)):
            if kind == template.part and is_possible(nodes):
                yield potentials.parts, number, features_of_part(sentence, template, kind, *nodes)

    def potentials(self, sentence, theta=None):
        n = len(sentence)
        potentials = self.structure.over(np.ones((n + 1, n + 1), dtype=bool))
        if self.templates is PARTS:
            potentials.arcs[:] = sentence.first_scores
        for template, weights in zip(self.templates, theta or self.theta):
            for array, index, names in self.parts(sentence, template, potentials):
                array[index] += sum(weights[name] for name in names)
        return potentials

    def gradients_of(self, sentence, potential_gradient):
        """Return the gradient in the weights of each template."""
        gradients = self.zeros()
        if potential_gradient is not None:
            for template, gradient in zip(self.templates, gradients):
                for array, index, names in self.parts(sentence, template, potential_gradient):
                    for name in names:
                        gradient[name] += array[index]
        return gradients

    def update(self, sentence):
        """Return the loss, and the norms after the proximal step."""
        self.round += 1
        potentials = self.potentials(sentence)
        heads = np.array(sentence.heads)
        loss, gradient = self.loss.value_and_gradient(self.structure, potentials, heads)
        gradients = self.gradients_of(sentence, gradient)
        rate = self.rate(self.round)
        step = rate * self.lambda_
        if self.method == "fobos":
            start = all_added(self.theta, gradients, -rate)
        else:
            self.gradients = all_added(self.gradients, gradients, 1.0)
            start = all_added(self.zeros(), self.gradients, -rate)
            step *= self.round
        norms = np.array([norm_of(weights) for weights in start])
        norms_after = self.regularizer.prox(norms, step)
        ratios = np.divide(norms_after, norms, out=np.zeros_like(norms), where=norms > 0)
        self.theta = [added({}, weights, ratio) for weights, ratio in zip(start, ratios)]
        weight = self.average.weight(self.round)
        self.weight += weight
        self.sums = all_added(self.sums, self.theta, weight)
        return loss, norms_after

    def norms(self):
        return np.array([norm_of(weights) for weights in self.theta])

    def averaged_potentials(self, sentence):
        return self.potentials(sentence, all_added(self.zeros(), self.sums, 1 / self.weight))


def structure_of(templates):
    return NonProjectiveTree() if templates is TEMPLATES else SecondOrderTree()


def norm_of(weights):
    return np.sqrt(sum(weight * weight for weight in weights.values()))


def added(a, b, factor):
    total = defaultdict(float, a)
    for key, value in b.items():
        total[key] += factor * value
    return total


def all_added(totals, others, factor):
    """Return the weights of each template plus a multiple of others."""
    return [added(total, other, factor) for total, other in zip(totals, others)]


SETTINGS = {
    "ridge": {"regularizer": Ridge(), "lambda_": 0.05},
    "mkl": {"regularizer": SquaredL21(), "lambda_": 0.02},
    "groups die and come back": {"regularizer": L21(), "lambda_": 0.9},
    "crf": {"regularizer": SquaredL21(), "lambda_": 0.02, "loss": CRF()},
    "dual averaging": {"regularizer": SquaredL21(), "lambda_": 0.1, "method": "rda"},
    "sparse dual averaging": {"regularizer": L21(), "lambda_": 0.9, "method": "rda"},
}


only_compiled = [
    pytest.param(name, marks=[pytest.mark.compiled] * (name != "mkl")) for name in SETTINGS
]


@pytest.mark.parametrize("name", only_compiled)
@pytest.mark.parametrize(
    "dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.compiled)]
)
def test_training_is_algorithm_1_over_named_features(name, dtype):
    check_training(name, dtype, TEMPLATES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [case for case in only_compiled if case.values[0] != "crf"])
def test_templates_of_parts_are_no_exception(name):
    check_training(name, np.float64, PARTS)


def check_training(name, dtype, templates):
    tolerance = 1e-9 if dtype == np.float64 else 2e-4
    if name == "crf":  # the bank leaves out arcs with a gradient below 1e-5, unlike the literal one
        tolerance = 1e-3
    corpus = sentences()
    guide = guide_of(corpus) if templates is PARTS else None
    tokens = encode(Treebank.from_sentences(corpus), templates, guide)
    trainer, naive = trainer_and_naive(SETTINGS[name], dtype, templates)
    numbers_alive = []
    for s in np.random.default_rng(1).integers(0, len(corpus), size=50).tolist():
        loss, norms = naive.update(corpus[s])
        step = trainer.update(tokens.sentence(s), np.array(corpus[s].heads))
        assert_allclose(step.loss, loss, atol=10 * tolerance)
        assert_allclose(trainer.norms, norms, atol=tolerance)
        numbers_alive.append(np.count_nonzero(norms))
    assert_allclose(trainer.norms, naive.norms(), atol=tolerance)
    trainer.recompute_norms()
    assert_allclose(trainer.norms, naive.norms(), atol=tolerance)
    if "die" in name:
        assert min(numbers_alive) < max(numbers_alive)
        assert sorted(numbers_alive) != numbers_alive
    check_averaged_potentials(trainer, naive, corpus, tokens, tolerance)


def trainer_and_naive(settings, dtype, templates):
    """Return a trainer and the literal algorithm of the same settings."""
    loss = settings.get("loss", StructuredHinge())
    common = {
        "lambda_": settings["lambda_"],
        "method": settings.get("method", "fobos"),
        "average": PolynomialAverage(2.0),
    }
    n_pairs = {"arc": 6, "grandparent": 3, "sibling": 3}
    banks = []
    for kind, templates_of_kind in templates.by_part().items():
        sizes = [1 << 14] * n_pairs[kind]
        banks.append(ArcTemplateBank(templates_of_kind, averaging=True, dtype=dtype, sizes=sizes))
    regularizer = settings["regularizer"]
    rate = InverseSqrt(0.3)
    trainer = online_trainer(
        banks,
        structure_of(templates),
        loss=loss,
        regularizer=regularizer,
        schedule=rate,
        **common,
    )
    return trainer, NaiveParser(templates, loss, regularizer, rate=rate, **common)


def check_averaged_potentials(trainer, naive, corpus, tokens, tolerance):
    """Compare the averaged potentials of all sentences, one by one and together."""
    predictor = Predictor(trainer.banks, trainer.structure)
    blocks = potentials_of(predictor, [tokens.sentence(s) for s in range(len(corpus))])
    for s, sentence in enumerate(corpus):
        expected = naive.averaged_potentials(sentence)
        are_arcs = ~np.eye(len(expected.arcs), dtype=bool)
        are_arcs[:, 0] = False
        potentials = predictor.potentials(tokens.sentence(s))
        assert_allclose(
            potentials.arcs[are_arcs],
            expected.arcs[are_arcs],
            atol=tolerance,
        )
        assert_allclose(blocks[s].arcs, potentials.arcs, atol=1e-12)
        if naive.templates is PARTS:
            possible = [is_possible(nodes) for _, *nodes in nodes_of_parts(expected.lists)]
            assert_allclose(
                potentials.parts[possible],
                expected.parts[possible],
                atol=tolerance,
            )
            assert np.count_nonzero(potentials.parts) > 0


def trained(templates=TEMPLATES, rounds=30, **settings):
    corpus = sentences()
    tokens = encode(Treebank.from_sentences(corpus), templates)
    bank = ArcTemplateBank(templates, averaging=True, memory=20)
    trainer = online_trainer(
        [bank],
        NonProjectiveTree(),
        lambda_=0.02,
        schedule=InverseSqrt(0.3),
        average=PolynomialAverage(2.0),
        **settings,
    )
    for s in range(rounds):
        trainer.update(
            tokens.sentence(s % len(corpus)),
            np.array(corpus[s % len(corpus)].heads),
        )
    return trainer, tokens


def potentials_by(bank, x):
    """Return the potentials of a bank alone."""
    potentials = TreePotentials(np.zeros((len(x) + 1, len(x) + 1)))
    bank.add_potentials(x, potentials)
    return potentials.arcs


def test_the_restricted_bank_scores_as_the_kept_templates_do():
    trainer, tokens = trained()
    some_templates = TEMPLATES.keep(TEMPLATES.names[1:6])
    bank = trainer.banks[0]
    smaller = bank.restricted(some_templates)
    other = online_trainer(
        [smaller],
        NonProjectiveTree(),
        lambda_=0.02,
        schedule=InverseSqrt(0.3),
        average=PolynomialAverage(2.0),
    )
    rows = [trainer.group_state.names.index(name) for name in other.group_state.names]
    state = {}
    for name, array in trainer.group_state.state().items():
        state[name] = array if name == "weights" else array[rows]
    other.group_state.load_state(state)
    trainer.group_state.scales[[0, 6, 7]] = 0.0
    treebank = Treebank.from_sentences(sentences())
    tokens_of_some = encode(treebank, some_templates)
    for s in range(len(tokens)):
        expected = potentials_by(bank, tokens.sentence(s))
        arcs = potentials_by(smaller, tokens_of_some.sentence(s))
        assert_allclose(arcs, expected, atol=1e-6)
    assert_allclose(other.norms, trainer.norms[1:6])
    # further fields do not matter
    arcs = potentials_by(smaller, tokens.sentence(1))
    assert_allclose(arcs, potentials_by(smaller, tokens_of_some.sentence(1)))
    with pytest.raises(InputError, match="the tokens have"):
        potentials_by(smaller, encode(treebank, TEMPLATES[:1]).sentence(1))


def test_memory_is_bounded_and_shared_by_need():
    corpus = sentences(40)
    treebank = Treebank.from_sentences(corpus)
    tokens = encode(treebank, TEMPLATES)
    examples = [(tokens.sentence(s), np.array(sentence.heads)) for s, sentence in enumerate(corpus)]
    bank = ArcTemplateBank.plan(TEMPLATES, examples, memory=0.1)
    assert bank.nbytes <= 0.1e6 + 32 * 32 * 4
    roomy = ArcTemplateBank.plan(TEMPLATES, examples, memory=100)
    assert roomy.nbytes < 1e6  # a small treebank takes what it needs, not what it may
    with pytest.raises(InputError, match="allow more"):
        ArcTemplateBank(TEMPLATES, memory=0.01)


def test_the_collision_rate_is_estimated_from_how_full_the_tables_are():
    corpus = sentences(40)
    tokens = encode(Treebank.from_sentences(corpus), TEMPLATES)
    rates = []
    numbers_of_features = []
    for size in (4, 1 << 12, 1 << 15):
        bank = ArcTemplateBank(TEMPLATES, averaging=True, sizes=[size] * 6)
        trainer = online_trainer(
            [bank], NonProjectiveTree(), regularizer=Ridge(), lambda_=0.0, schedule=InverseSqrt(0.3)
        )
        for s, sentence in enumerate(corpus):
            trainer.update(tokens.sentence(s), np.array(sentence.heads))
        rates.append(bank.collision_rate())
        numbers_of_features.append(bank.n_features())
    crowded, roomy, _ = rates
    few, many, all_features = numbers_of_features
    assert crowded > 0.5 > 0.02 > roomy
    assert few / (1 - crowded) < 1.5 * all_features
    assert many / (1 - roomy) == pytest.approx(all_features, rel=0.03)


def test_tables_begin_at_a_cache_line():
    assert ArcTemplateBank(TEMPLATES, memory=1).table.ctypes.data % 128 == 0


@given(
    arrays_of.arrays(np.float32, (7, 5), elements=st.sampled_from([0.0, 1.0, -1.0, 0.5, -3.0])),
    st.integers(1, 50),
)
def test_the_largest_weights_are_those_that_sorting_finds(weights, n):
    order = np.argsort(-np.abs(weights), axis=None, kind="stable")[:n]
    assert_array_equal(largest(weights, n), order[weights.flat[order] != 0])


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arcs_scored_together_have_the_bits_of_those_scored_one_by_one(dtype, rng):
    """Lists of arcs are scored one after the other, all arcs of sentences in vectors.

    The sentences are of any length.
    """
    lengths = [1, 2, 7, 8, 9, 16, 17, 40, 300]
    corpus = []
    for n in lengths:
        forms = rng.choice(["a", "b", "ab", "c"], n).tolist()
        upos = rng.choice(["X", "Y"], n).tolist()
        corpus.append(Sentence(forms=forms, upos=upos, heads=[0, *range(1, n)]))
    templates = TemplateSet(
        [
            "h.form m.form",
            "h.form m.form direction",
            "h.form m.form distance",
            "h.upos m.upos",
            "h-1.upos h.form m.form distance",
            "m.upos direction",
            "h.form m+1.form",
        ]
    )
    bank = ArcTemplateBank(templates, dtype=dtype, memory=0.2)
    trainer = online_trainer([bank], NonProjectiveTree(), lambda_=0.0, schedule=InverseSqrt(0.1))
    treebank = Treebank.from_sentences(corpus)
    tokens = encode(treebank, templates)
    for s in range(5):
        trainer.update(tokens.sentence(s), treebank[s : s + 1].heads)
    for dead in ([], [0], [1], [2], [0, 1], list(range(len(templates)))):
        scales = rng.normal(size=len(templates))
        scales[dead] = 0.0
        bank.group_state.scales[:] = scales
        together = scores_together(bank, [tokens.sentence(s) for s in range(len(corpus))])
        for s, n in enumerate(lengths):
            before = rng.normal(size=(n + 1, n + 1))
            check_scores_of_lists(
                bank,
                tokens.sentence(s),
                before,
                together[s],
            )


def scores_together(bank, sentences):
    """Return the scores of all arcs of some sentences."""
    potentials = [x.initial_potentials(NonProjectiveTree()) for x in sentences]
    bank.add_to_all(sentences, potentials)
    return [of_sentence.arcs for of_sentence in potentials]


def check_scores_of_lists(bank, x, before, together):
    """Compare scores of all arcs with those of a list of arcs, without the last one.

    ``before`` are scores that the bank adds to, and ``together`` those that it adds to zeros with
    other sentences.
    """
    n = len(x)
    alone = before.copy()
    bank.add_potentials(x, TreePotentials(alone))
    x.guide = ArcGuide(likely=np.ones((n + 1, n + 1), dtype=bool))
    x.likely[n, n - 1] = False
    listed = before.copy()
    bank.add_potentials(x, TreePotentials(listed))
    [listed_on_zeros] = scores_together(bank, [x])
    are_listed = x.likely & ~np.eye(n + 1, dtype=bool)
    are_listed[:, 0] = False
    assert_array_equal(alone[are_listed], listed[are_listed])
    assert_array_equal(together[are_listed], listed_on_zeros[are_listed])
    assert_array_equal(alone[:, 0], before[:, 0])
    assert_array_equal(np.diag(alone), np.diag(before))


def test_a_template_says_what_it_looks_at():
    template = Template.parse("agreement = h.Case h-1.upos m+2.form between.lemma direction")
    assert template.head == ((0, "Case"), (-1, "upos"))
    assert template.modifier == ((2, "form"),)
    assert template.between == "lemma"
    assert template.variant == "direction"
    assert template.name == "agreement"
    assert template.fields == {"Case", "upos", "form", "lemma"}


@pytest.mark.parametrize(
    ("name", "size"), [("martins507", 507), ("mcdonald2005", 36), ("small", 26), ("rich", 691)]
)
def test_named_sets_are_what_their_text_says(name, size):
    templates = TemplateSet.resolve(name)
    assert len(templates) == len(set(templates.names)) == size
    assert TemplateSet(str(templates).splitlines()) == templates


def test_martins507_crosses_thirteen_views_in_three_variants():
    templates = TemplateSet.resolve("martins507")
    assert len({t.head for t in templates}) == len({t.modifier for t in templates}) == 13
    assert {t.variant for t in templates} == {"arc", "direction", "distance"}
    assert templates.fields == ["form", "lemma", "upos", "xpos"]
    assert templates.reach == 2


def test_users_write_sets_in_files_and_filter_them(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text(
        "# tags\nh.upos m.upos distance\n\nwords = h.form m.form  # both words\n", encoding="utf-8"
    )
    templates = TemplateSet.resolve(path)
    assert templates.names == ["h.upos m.upos distance", "words"]
    assert templates.filter("w*").names == ["words"]
    assert templates.filter("h.upos*").names == ["h.upos m.upos distance"]
    assert templates.keep(["words"]).names == ["words"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("h.colour", r"own.txt, line 2: there is no field 'colour'"),
        ("x.form", r"own.txt, line 2: 'x.form' is not an atom"),
        ("h.form direction distance", r"line 2: 'distance' is not an atom"),
        ("between.upos between.upos", "once"),
        ("words =", "line 2: A template must be atoms"),
        ("= h.form", "name = atoms"),
        ("h.prefix0", "no field 'prefix0'"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    path = tmp_path / "own.txt"
    path.write_text(f"h.upos\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        TemplateSet.resolve(path)


def test_a_file_may_begin_with_a_mark_and_have_lines_of_windows(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(b"\xef\xbb\xbfh.upos\r\nm.upos\r\n")
    assert TemplateSet.resolve(path).names == ["h.upos", "m.upos"]


def test_bad_sets_are_refused(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(InputError, match="give at least one"):
        TemplateSet.resolve(empty)
    with pytest.raises(InputError, match="must be a file, one of martins507"):
        TemplateSet.resolve("martins508")
    for name in ("", ".", "h.form\n" * 100):  # a folder, and a string too long for a file name
        with pytest.raises(InputError, match=r"must be a file, one of .* a list of strings"):
            TemplateSet.resolve(name)
    with pytest.raises(InputError, match="got 'None'"):
        TemplateSet.resolve(None)
    with pytest.raises(InputError, match="twice"):
        TemplateSet(["h.form", "h.form"])
    with pytest.raises(InputError, match=r"no template 'm\.form'"):
        TemplateSet(["h.form"]).keep(["m.form"])
