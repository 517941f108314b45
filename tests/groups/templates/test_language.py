"""The template language and the named sets of templates."""

import pytest

from omkl.exceptions import InputError
from omkl.groups import Template, TemplateSet


def test_a_template_says_what_it_looks_at():
    template = Template.parse("agreement = h.Case h-1.upos m+2.form between.lemma direction")
    assert template.head == ((0, "Case"), (-1, "upos"))
    assert template.modifier == ((2, "form"),)
    assert (template.between, template.variant) == ("lemma", "direction")
    assert template.name == "agreement"
    assert template.fields == {"Case", "upos", "form", "lemma"}


@pytest.mark.parametrize(("name", "size"), [("martins507", 507), ("mcdonald2005", 36), ("small", 26), ("rich", 691)])
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
    path.write_text("# tags\nh.upos m.upos distance\n\nwords = h.form m.form  # both words\n", encoding="utf-8")
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
