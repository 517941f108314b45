"""Configuration of the documentation: ``python -m sphinx -W -b html docs docs/_build/html``."""

import os
import sys
from pathlib import Path

import omkl
from omkl.cli.options import omkl as command

sys.path.insert(0, str(Path(__file__).parent))
from command_reference import reference

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["COLUMNS"] = "100"

project = "omkl"
author = "The omkl developers"
copyright = "The omkl developers"
release = version = omkl.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "stories", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
default_role = "code"
myst_enable_extensions = ["colon_fence", "dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
numpydoc_show_class_members = False
autodoc_typehints = "none"

html_theme = "pydata_sphinx_theme"
html_title = "omkl"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_sidebars = {"api/**": [], "index": [], "getting_started": [], "choosing": [], "cli": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": ["stories", "../examples"],
    "gallery_dirs": ["tutorials", "examples"],
    "filename_pattern": r"/stories/",  # examples take minutes to hours: they are listed, not run
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e6,
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_",),
    "ignore_repr_types": r"omkl|sklearn",
}


def from_elsewhere(app, what, name, member, skip, options):
    """Members that scikit-learn and other libraries define are described there."""
    function = getattr(member, "__func__", getattr(member, "fget", member))
    module = getattr(function, "__module__", None) or "omkl"
    return True if not module.startswith("omkl") and callable(function) else None


def write_command_reference(app):
    Path(app.srcdir, "_command_reference.inc").write_text(reference(command), encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write_command_reference)
    app.connect("autodoc-skip-member", from_elsewhere)
