"""What a parser takes for sentences: words, tokens of conllu, documents of spaCy; and what it says of anything else."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import omkl
from omkl.data import Sentence, read_conllu, synthetic_treebank, write_treebank
from omkl.estimators.sentences import as_sentences
from omkl.exceptions import DataFileError, DataWarning, InputError

CONLLU = """\
# text = Vámonos al mar.
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV\tMood=Imp|Number=Plur\t0\troot\t_\tGloss=go
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tghost\t_\t_\t_\t_\t_\t_\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tP\t_\t5\tcase\t_\tNote
4\tel\tel\tDET\tD\tGender=Masc\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""


@pytest.fixture(scope="module")
def model():
    treebank = synthetic_treebank(60, random_state=0)
    return omkl.DependencyParser(["m.form distance", "h.form m.form"], epochs=1, random_state=0).fit(treebank)


def silently_parsed(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return [(sentence.forms, sentence.heads) for sentence in model.parse(X)]


def test_words_sentences_and_one_sentence_are_parsed_alike(model):
    words = [["A", "kutya"], ("ugat", "."), iter(["Hol", "?"])]
    parsed = silently_parsed(model, words)
    assert [forms for forms, _ in parsed] == [["A", "kutya"], ["ugat", "."], ["Hol", "?"]]
    assert all(heads.count(0) == 1 for _, heads in parsed)
    words[2] = ["Hol", "?"]
    made = [Sentence(forms=list(forms)) for forms in words]
    assert silently_parsed(model, made) == silently_parsed(model, (s for s in words)) == parsed
    assert silently_parsed(model, made[0]) == parsed[:1]
    assert silently_parsed(model, [made[0], words[1]]) == parsed[:2]


def test_words_without_tags_are_one_warning_that_names_the_columns():
    treebank = synthetic_treebank(60, random_state=0)
    model = omkl.DependencyParser("small", epochs=1, random_state=0).fit(treebank)
    with pytest.warns(DataWarning, match="The input has no .*LEMMA, UPOS, XPOS: the parser") as caught:
        model.parse([["A", "kutya"]])
    assert len(caught) == 1


def test_tokens_of_conllu_are_what_is_read_from_the_text(model, tmp_path):
    conllu = pytest.importorskip("conllu")
    (tmp_path / "a.conllu").write_text(CONLLU, encoding="utf-8")
    read = list(read_conllu(tmp_path / "a.conllu"))
    sentences = conllu.parse(CONLLU)
    assert as_sentences(sentences) == as_sentences(sentences[0]) == read
    assert as_sentences(iter(sentences)) == read
    heads = [heads for _, heads in silently_parsed(model, read)]
    assert [heads for _, heads in silently_parsed(model, sentences[0])] == heads
    learned = omkl.DependencyParser(["m.form distance"], epochs=1).fit(sentences)
    assert learned.score(sentences) == learned.score(tmp_path / "a.conllu")


def test_tokens_may_be_dicts_of_ones_own():
    tokens = [{"form": "No", "upos": "DET", "feats": {"PronType": "Neg"}}, {"form": "way", "upostag": "NOUN"}]
    (sentence,) = as_sentences([tokens])
    assert (sentence.forms, sentence.upos, sentence.feats) == (["No", "way"], ["DET", "NOUN"], ["PronType=Neg", "_"])
    assert as_sentences(tokens) == [sentence]


def test_documents_of_spacy(model):
    spacy = pytest.importorskip("spacy")
    document = spacy.blank("hu")("A kutya  ugat.")
    (whole,) = as_sentences(document)
    assert (whole.forms, whole.misc) == (["A", "kutya", "ugat", "."], ["_", "_", "SpaceAfter=No", "SpaceAfter=No"])
    tokens = spacy.tokens.Doc(
        document.vocab, ["Ugat", ".", "Eszik"], pos=["VERB", "PUNCT", "VERB"], tags=["V", "", "V"],
        lemmas=["ugat", ".", "eszik"], morphs=["Number=Sing", "", ""], sent_starts=[True, False, True],
    )  # fmt: skip
    first, second = as_sentences([tokens])
    assert second.forms == ["Eszik"]
    assert (first.lemmas, first.upos, first.xpos) == (["ugat", "."], ["VERB", "PUNCT"], ["V", "_"])
    assert first.feats == ["Number=Sing", "_"]
    assert len(silently_parsed(model, [document, tokens])) == 3


def test_what_has_the_attributes_of_a_document_is_one():
    """As without spaCy: two sentences, white space, and words of which nothing is known."""
    words = [
        SimpleNamespace(text=text, lemma_="", pos_="", tag_="", morph="", is_space=not text.strip(), whitespace_=" ")
        for text in ("A", "\n", "kutya", "ugat")
    ]
    document = SimpleNamespace(sents=[words[:3], words[1:2], words[3:]], has_annotation=lambda name: True)
    assert [sentence.forms for sentence in as_sentences(document)] == [["A", "kutya"], ["ugat"]]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (5, "int 5 holds no sentences: give lists of words, one for each sentence"),
        ({"form": "A"}, "dict .* holds no sentences"),
        (["A", ["kutya"]], "Sentence 1 is str 'A': give lists of words"),
        ([["A"], [["kutya"]]], r"Sentence 2 has list \['kutya'\] in the place of a word"),
        ([["A", None]], "Sentence 1 has NoneType None in the place of a word"),
        ([["A"], 7], "Sentence 2 is int 7"),
        ([["A"], []], "Sentence 2 has no words"),
        ([["A"], [Sentence(forms=["A"])]], "Item 2 of the sentences is several sentences: give all in one list"),
        ([["A", "\t"]], "Sentence 1, word 2"),
        ([[{"form": "A"}, {"lemma": "b"}]], "in the place of a token: give each a form"),
        ([[{"form": 3}]], "Sentence 1, word 1: 3 among forms"),
        (b"bytes", "bytes .* holds no sentences"),
    ],
)
def test_anything_else_is_one_sentence(model, X, message):
    with pytest.raises(InputError, match=message) as caught:
        model.parse(X)
    assert "\n" not in str(caught.value)


def test_words_that_are_taken_for_paths_are_explained(model, tmp_path):
    for X in (["A", "kutya"], "A kutya ugat"):
        with pytest.raises(DataFileError, match=r"no file A.*give the words of each sentence as a list"):
            model.parse(X)
    with pytest.raises(DataFileError, match=r"There is no file missing.conllu\.$"):
        model.parse("missing.conllu")
    path = tmp_path / "a.conllu"
    write_treebank(path, synthetic_treebank(5, random_state=0))
    assert len(model.parse([Path(path), str(path)])) == 10
