"""The template language, and the bank of arc templates against the literal Algorithm 1 over named
features.
"""

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
    rng = np.random.default_rng(seed)
    tree = NonProjectiveTree()
    made = []
    for _ in range(n_sentences):
        n = int(rng.integers(1, 8))
        forms = ["".join(rng.choice(list("ab"), 2)) for _ in range(n)]
        heads = tree.decode(rng.normal(size=(n + 1, n + 1))).tolist()
        feats = rng.choice(["_", "Case=Nom", "Case=Acc|Number=Sing"], n).tolist()
        made.append(
            Sentence(
                forms=forms, upos=rng.choice(["X", "Y", "Z"], n).tolist(), feats=feats, heads=heads
            )
        )
    for sentence in made:  # scores of a first parser
        sentence.first_scores = rng.normal(size=(len(sentence) + 1,) * 2).astype(np.float32)
    return made


def guide(corpus):
    """All arcs are candidates, with the scores of a first parser."""
    arcs = [ArcGuide(s.first_scores, np.ones(s.first_scores.shape, dtype=bool)) for s in corpus]
    return Guide(np.zeros(sum(map(len, corpus)), int), arcs)


def nodes_of_parts(lists):
    """List the kind, side, head, third node and modifier of every part, by its number; None is no
    node.
    """
    arcs = list(zip(lists.heads.tolist(), lists.modifiers.tolist()))
    found = [
        ("grandparent", "left" if m < h else "right", h, g, m)
        for h, m in arcs
        if h > 0
        for g, other in arcs
        if other == h
    ]
    for h in range(len(lists.starts) - 1):
        for side, own in (
            ("left", [m for i, m in arcs if i == h > m]),
            ("right", [m for i, m in arcs if i == h < m]),
        ):
            line = [None, *sorted(own, key=lambda m: abs(m - h)), None]
            pairs = (
                [(i, j) for i in range(len(line)) for j in range(i + 1, len(line))] if own else []
            )
            found += [("sibling", side, h, line[i], line[j]) for i, j in pairs]
    return found


def field(sentence, name, place):
    """Value of a field by the definition of the template language."""
    if place == 0:
        return "ROOT"
    if not 0 < place <= len(sentence):
        return "OUTSIDE"
    form, feats = sentence.forms[place - 1], sentence.feats[place - 1]
    if name == "Case":
        return dict(pair.split("=") for pair in feats.split("|") if "=" in pair).get("Case", "_")
    return {"form": form, "upos": sentence.upos[place - 1], "suffix1": form[-1]}[name]


def features(sentence, template, h, m):
    """Names of the features of one template that an arc fires."""
    parts = [("h", o, f, field(sentence, f, h + o)) for o, f in template.head]
    parts += [("m", o, f, field(sentence, f, m + o)) for o, f in template.modifier]
    if template.variant != "arc":
        parts.append("left" if m < h else "right")
    if template.variant == "distance":
        parts.append(sum(abs(h - m) >= low for low in BINS))
    if template.between is None:
        return [tuple(parts)]
    between = {field(sentence, template.between, i) for i in range(min(h, m) + 1, max(h, m))}
    return [(*parts, value) for value in sorted(between)]


def is_possible(nodes):
    """A word is not the grandparent of itself."""
    return nodes[-1] is None or nodes[-2] != nodes[-1]


def features_of_part(sentence, template, kind, side, h, third, m):
    """Names of the features of one template that a part fires; missing nodes have no values."""
    nodes = (("h", h, template.head), ("m", m, template.modifier), (kind, third, template.third))
    parts = [
        (name, o, f, field(sentence, f, node + o))
        for name, node, own in nodes
        for o, f in own
        if node is not None
    ]
    parts += ["no third"] * (third is None) + ["no modifier"] * (m is None)
    if kind == "grandparent":
        parts.append((third > h) == (m > h))
    if template.variant != "arc":
        parts.append(side)
    if template.variant == "distance":
        parts.append("end" if m is None else sum(abs(h - m) >= low for low in BINS))
    return [tuple(parts)]


class NaiveParser:
    """Algorithm 1 and dual averaging with a dictionary of weights for each template."""

    def __init__(self, templates, loss, regularizer, lambda_, rate, method, average):
        self.templates, self.loss, self.regularizer = templates, loss, regularizer
        self.lambda_, self.rate, self.method, self.average = lambda_, rate, method, average
        self.theta = [defaultdict(float) for _ in templates]
        self.gradients = [defaultdict(float) for _ in templates]
        self.sums = [defaultdict(float) for _ in templates]
        self.structure = NonProjectiveTree() if templates is TEMPLATES else SecondOrderTree()
        self.round, self.weight = 0, 0.0

    def parts(self, sentence, template, potentials):
        """Yield the array, the index, and the features of every arc or part that a template
        describes.
        """
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
            for array, index, found in self.parts(sentence, template, potentials):
                array[index] += sum(weights[feature] for feature in found)
        return potentials

    def update(self, sentence):
        self.round += 1
        value, D = self.loss.value_and_gradient(
            self.structure, self.potentials(sentence), np.array(sentence.heads)
        )
        gradients = [defaultdict(float) for _ in self.templates]
        for template, gradient in zip(self.templates, gradients) if D is not None else ():
            for array, index, found in self.parts(sentence, template, D):
                for feature in found:
                    gradient[feature] += array[index]
        rate, step = self.rate(self.round), self.rate(self.round) * self.lambda_
        if self.method == "fobos":
            start = [added(theta, g, -rate) for theta, g in zip(self.theta, gradients)]
        else:
            self.gradients = [added(total, g, 1.0) for total, g in zip(self.gradients, gradients)]
            start = [added({}, total, -rate) for total in self.gradients]
            step *= self.round
        norms = np.array([np.sqrt(sum(v * v for v in theta.values())) for theta in start])
        shrunk = self.regularizer.prox(norms, step)
        self.theta = [
            defaultdict(float, {f: v * s / b for f, v in t.items()})
            if b > 0
            else defaultdict(float)
            for t, s, b in zip(start, shrunk, norms)
        ]
        weight = self.average.weight(self.round)
        self.weight += weight
        self.sums = [added(total, theta, weight) for total, theta in zip(self.sums, self.theta)]
        return value, shrunk

    def averaged_potentials(self, sentence):
        return self.potentials(sentence, [added({}, total, 1 / self.weight) for total in self.sums])


def added(a, b, factor):
    total = defaultdict(float, a)
    for key, value in b.items():
        total[key] += factor * value
    return total


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


@pytest.mark.parametrize("name", [own for own in only_compiled if own.values[0] != "crf"])
def test_templates_of_parts_are_no_exception(name):
    check_training(name, np.float64, PARTS)


def check_training(name, dtype, templates):
    settings = {"loss": StructuredHinge(), "method": "fobos", **SETTINGS[name]}
    # the bank leaves out arcs with a gradient below 1e-5, the literal algorithm does not
    tolerance = 1e-3 if name == "crf" else 1e-9 if dtype == np.float64 else 2e-4
    corpus = sentences()
    tokens = encode(
        Treebank.from_sentences(corpus), templates, guide(corpus) if templates is PARTS else None
    )
    kinds = templates.by_part()
    sizes = {"arc": [1 << 14] * 6, "grandparent": [1 << 14] * 3, "sibling": [1 << 14] * 3}
    banks = [
        ArcTemplateBank(kinds[kind], averaging=True, dtype=dtype, sizes=sizes[kind])
        for kind in kinds
    ]
    common = {
        "lambda_": settings["lambda_"],
        "method": settings["method"],
        "average": PolynomialAverage(2.0),
    }
    trainer = online_trainer(
        banks,
        NonProjectiveTree() if templates is TEMPLATES else SecondOrderTree(),
        loss=settings["loss"],
        regularizer=settings["regularizer"],
        schedule=InverseSqrt(0.3),
        **common,
    )
    naive = NaiveParser(
        templates, settings["loss"], settings["regularizer"], rate=InverseSqrt(0.3), **common
    )
    rng = np.random.default_rng(1)
    alive = []
    for s in rng.integers(0, len(corpus), size=50).tolist():
        value, norms = naive.update(corpus[s])
        step = trainer.update(tokens.sentence(s), np.array(corpus[s].heads))
        assert_allclose(step.loss, value, atol=10 * tolerance)
        assert_allclose(trainer.norms, norms, atol=tolerance)
        alive.append(np.count_nonzero(norms))
    assert_allclose(trainer.norms, naive_norms(naive), atol=tolerance)
    trainer.recompute_norms()
    assert_allclose(trainer.norms, naive_norms(naive), atol=tolerance)
    if "die" in name:
        assert min(alive) < max(alive)
        assert sorted(alive) != alive
    predictor = Predictor(trainer.banks, trainer.structure)
    blocks = potentials_of(predictor, [tokens.sentence(s) for s in range(len(corpus))])
    for s, sentence in enumerate(corpus):
        expected = naive.averaged_potentials(sentence)
        off_diagonal = ~np.eye(len(expected.arcs), dtype=bool)
        off_diagonal[:, 0] = False
        found = predictor.potentials(tokens.sentence(s))
        assert_allclose(found.arcs[off_diagonal], expected.arcs[off_diagonal], atol=tolerance)
        assert_allclose(blocks[s].arcs, found.arcs, atol=1e-12)
        if templates is PARTS:
            possible = [is_possible(nodes) for _, *nodes in nodes_of_parts(expected.lists)]
            assert_allclose(found.parts[possible], expected.parts[possible], atol=tolerance)
            assert np.count_nonzero(found.parts) > 0


def naive_norms(naive):
    return np.array([np.sqrt(sum(v * v for v in theta.values())) for theta in naive.theta])


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
        trainer.update(tokens.sentence(s % len(corpus)), np.array(corpus[s % len(corpus)].heads))
    return trainer, tokens


def test_the_restricted_bank_scores_as_the_kept_templates_do():
    trainer, tokens = trained()
    kept = TEMPLATES.keep(TEMPLATES.names[1:6])
    bank = trainer.banks[0]
    smaller = bank.restricted(kept)
    other = online_trainer(
        [smaller],
        NonProjectiveTree(),
        lambda_=0.02,
        schedule=InverseSqrt(0.3),
        average=PolynomialAverage(2.0),
    )
    rows = [trainer.group_state.names.index(name) for name in other.group_state.names]
    state = trainer.group_state.state()
    other.group_state.load_state(
        {name: own if name == "weights" else own[rows] for name, own in state.items()}
    )
    trainer.group_state.scales[[0, 6, 7]] = 0.0
    as_kept = encode(Treebank.from_sentences(sentences()), kept)
    for s in range(len(tokens)):
        x = tokens.sentence(s)
        expected, found = map(TreePotentials, np.zeros((2, len(x) + 1, len(x) + 1)))
        bank.add_potentials(x, expected)
        smaller.add_potentials(as_kept.sentence(s), found)
        assert_allclose(found.arcs, expected.arcs, atol=1e-6)
    assert_allclose(other.norms, trainer.norms[1:6])
    as_all = tokens.sentence(1)
    smaller.add_potentials(as_all, found := TreePotentials(np.zeros((len(as_all) + 1,) * 2)))
    smaller.add_potentials(
        as_kept.sentence(1), expected := TreePotentials(np.zeros(found.arcs.shape))
    )
    assert_allclose(found.arcs, expected.arcs)  # further fields do not matter
    few = encode(Treebank.from_sentences(sentences()), TEMPLATES[:1])
    with pytest.raises(InputError, match="the tokens have"):
        smaller.add_potentials(few.sentence(1), found)


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
    found = []
    for size in (4, 1 << 12, 1 << 15):
        bank = ArcTemplateBank(TEMPLATES, averaging=True, sizes=[size] * 6)
        trainer = online_trainer(
            [bank], NonProjectiveTree(), regularizer=Ridge(), lambda_=0.0, schedule=InverseSqrt(0.3)
        )
        for s, sentence in enumerate(corpus):
            trainer.update(tokens.sentence(s), np.array(sentence.heads))
        found.append((bank.collision_rate(), bank.n_features()))
    (crowded, few), (roomy, many), (_, all_features) = found
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
def test_arcs_scored_together_have_the_bits_of_those_scored_one_by_one(dtype):
    """Lists of arcs are scored one after the other, all arcs of sentences in vectors, with
    sentences of any length.
    """
    rng = np.random.default_rng(0)
    lengths = [1, 2, 7, 8, 9, 16, 17, 40, 300]
    made = [
        Sentence(
            forms=rng.choice(["a", "b", "ab", "c"], n).tolist(),
            upos=rng.choice(["X", "Y"], n).tolist(),
            heads=[0, *range(1, n)],
        )
        for n in lengths
    ]
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
    treebank = Treebank.from_sentences(made)
    tokens = encode(treebank, templates)
    for s in range(5):
        trainer.update(tokens.sentence(s), treebank[s : s + 1].heads)

    def scored(xs):
        found = [x.initial_potentials(trainer.structure) for x in xs]
        bank.add_to_all(xs, found)
        return found

    for dead in ([], [0], [1], [2], [0, 1], list(range(len(templates)))):
        bank.group_state.scales[:] = np.where(
            np.isin(np.arange(len(templates)), dead), 0.0, rng.normal(size=len(templates))
        )
        together = scored([tokens.sentence(s) for s in range(len(made))])
        for s, n in enumerate(lengths):
            potentials = rng.normal(size=(n + 1, n + 1))
            alone = potentials.copy()
            bank.add_potentials(tokens.sentence(s), TreePotentials(alone))
            x = tokens.sentence(s)
            x.guide = ArcGuide(likely=np.ones((n + 1, n + 1), dtype=bool))
            x.likely[n, n - 1] = False  # so that the others are a list
            listed, [(zero_based,)] = potentials.copy(), scored([x])
            bank.add_potentials(x, TreePotentials(listed))
            others = x.likely & ~np.eye(n + 1, dtype=bool)
            others[:, 0] = False
            assert_array_equal(alone[others], listed[others])
            assert_array_equal(together[s].arcs[others], zero_based[others])
            assert_array_equal(alone[:, 0], potentials[:, 0])
            assert_array_equal(np.diag(alone), np.diag(potentials))


def test_a_template_says_what_it_looks_at():
    template = Template.parse("agreement = h.Case h-1.upos m+2.form between.lemma direction")
    assert template.head == ((0, "Case"), (-1, "upos"))
    assert template.modifier == ((2, "form"),)
    assert (template.between, template.variant) == ("lemma", "direction")
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
