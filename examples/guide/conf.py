"""The site: ``python -m sphinx -W --keep-going examples/guide build/guide``, with what the extra ``docs`` installs."""

from __future__ import annotations

import sys
import warnings
from html import escape
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import pages  # noqa: E402

import hybridbn  # noqa: E402

project = "hybridbn"
author = "The hybridbn developers"
project_copyright = author
version = release = hybridbn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["paper", "pictures", "templates", "gallery/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["templates"]
default_role = "literal"
suppress_warnings = ["ref.python"]  # words such as "variables" in the types of parameters, which are no references

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"inherited-members": False}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": "pictures",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib|<class 'list'>",
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", category=UserWarning, module="hybridbn")

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "hybridbn"
html_extra_path = ["llms.txt"]
html_static_path = ["static"]
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
}
html_sidebars = {"index": [], "tour": [], "limits": [], "engine": [], "numbers": []}


def escape_stars(_app: object, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Show the stars of shapes such as ``(*parents, states)``, which would begin emphasized text."""
    lines[:] = [line if "``" in line or ">>>" in line else line.replace("(*", r"(\*") for line in lines]


def write_formula(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers show without any script from elsewhere; what can't be, as it stands."""
    block = node.tagname == "math_block"
    try:
        formula = tex2mathml(node.astext().replace(r"\dots", r"\ldots"), as_block=block)
    except MathError:
        formula = f"<code>{escape(node.astext())}</code>"
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise SkipNode


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escape_stars)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))


pages.write_numbers(HERE)
pages.write_other_names(HERE)
