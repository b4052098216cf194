"""The guide: every block on its pages runs and shows what the page says, every public name is documented, with an
example, and the site builds without a warning.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import hybridbn as hb

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "examples" / "guide"
sys.path.insert(0, str(GUIDE))

import blocks  # noqa: E402
import pages  # noqa: E402

EVERYDAY = {"index.rst", "howto/network_by_hand.rst", "engine.rst"}
PAGES = {str(path.relative_to(GUIDE)): path for path in blocks.list_pages()}
PICTURES = sorted((GUIDE / "pictures").glob("plot_*.py"))

WITHOUT_EXAMPLE = {"Declaration", "GainRatio", "Utility", "Variance", "Observed", "Role", "Score"}
"""Names for builders and fitters of one's own, whose examples are with `builder` and `Fitter`; results of functions,
errors and progress reports are shown where they come from.
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EVERYDAY else pytest.mark.slow) for name in PAGES]
)
@pytest.mark.filterwarnings("ignore")
def test_blocks_of_a_page_show_what_it_says(name: str) -> None:
    missing = blocks.missing_packages(PAGES[name])
    if "code-block:: python" in PAGES[name].read_text() and "plot(" in PAGES[name].read_text():
        missing += [] if importlib.util.find_spec("matplotlib") else ["matplotlib"]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = [
            f"line {block.line}: {block.code}shows\n{shown}"
            for block, shown in blocks.run_page(PAGES[name])
            if not blocks.is_same(block, shown)
        ]
    assert not wrong, "\n".join(wrong)


def test_the_runner_sees_every_block(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(
        "Title\n=====\n\n.. before:\n\n   a = 1\n\n.. code-block:: python\n\n   b = a + 1\n   b\n\n"
        ".. code-block:: none\n\n   2\n\n.. code-block:: sh\n\n   echo 3\n\n.. code-block:: none\n\n   4\n\n"
        ".. code-block:: shell\n\n   false\n"
    )
    found = blocks.read_blocks(page)
    assert [block.kind for block in found] == ["before", "python", "sh"]
    assert [block.shown for block in found] == [None, "2\n", "4\n"]
    assert found[1].line == 10
    # a block counts as wrong where it shows something else
    assert [blocks.is_same(found[2], text) for text in ("4\n", "3\n")] == [True, False]


def test_every_python_block_is_run() -> None:
    """No page has code that the runner does not see: blocks of other kinds are R's and what is typed into a shell."""
    for path in GUIDE.rglob("*.rst"):
        if {"generated", "gallery"} & set(path.relative_to(GUIDE).parts):
            continue
        text = path.read_text(encoding="utf-8")
        marked = len(re.findall(r"^ *\.\. (?:code-block|code|highlight):: *(?:python|pycon|sh)\b", text, re.MULTILINE))
        assert marked == sum(block.kind in ("python", "sh") for block in blocks.read_blocks(path)), path.name
        assert ">>>" not in text


@pytest.mark.slow
@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_each_script_of_the_gallery_draws(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    code = (
        f"import runpy, warnings; warnings.simplefilter('ignore'); runpy.run_path({str(path)!r})\n"
        f"import matplotlib.pyplot as plt; figures = plt.get_fignums(); assert figures\n"
        f"assert any(ax.has_data() or ax.patches or ax.texts for n in figures for ax in plt.figure(n).axes)"
    )
    environment = os.environ | {"MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_gallery_reads_like_prose() -> None:
    assert len(PICTURES) >= 25
    for path in PICTURES:
        text = path.read_text(encoding="utf-8")
        title, prose = re.match(r'"""\n(.+)\n=+\n\n(.+?)\n"""', text, re.DOTALL).groups()  # type: ignore[union-attr]
        assert title[0].isupper()
        assert prose.count(" ") > 10
        assert len(text.splitlines()) <= 60


def test_every_public_name_has_documentation_and_an_example() -> None:
    missing = []
    for path, value in pages.list_public_names().items():
        documented = inspect.getdoc(value) or ""
        name = path.rpartition(".")[2]
        if not documented:
            missing.append(path)
        if name in WITHOUT_EXAMPLE or (inspect.isclass(value) and issubclass(value, Exception)):
            continue
        members = vars(value).values() if inspect.isclass(value) else ()
        if ">>>" not in documented and not any(">>>" in (inspect.getdoc(member) or "") for member in members):
            missing.append(f"{path} (example)")
    assert not missing


def test_pages_of_the_reference_name_what_there_is() -> None:
    public = pages.list_public_names()
    known = {*public.values()}
    for name in pages.list_documented_names(GUIDE):
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        assert value in known or inspect.getdoc(value)


def test_links_of_llms_txt_are_pages() -> None:
    text = (GUIDE / "llms.txt").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([\w/-]+)\.html\)", text)
    made = {"gallery/index", "numbers"}
    assert [name for name in linked if name not in made and not (GUIDE / f"{name}.rst").exists()] == []
    how_tos = {f"howto/{path.stem}" for path in (GUIDE / "howto").glob("*.rst")} - {"howto/index"}
    assert how_tos <= set(linked)


def test_pages_are_listed() -> None:
    for folder in ("howto", "coming_from", "reference"):
        listed = set(re.findall(r"^   ([\w-]+)$", (GUIDE / folder / "index.rst").read_text(), re.MULTILINE))
        assert {path.stem for path in (GUIDE / folder).glob("*.rst")} - {"index"} <= listed


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "pydata_sphinx_theme", "sphinx_gallery", "matplotlib", "sklearn"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"]
    command += ["-d", str(tmp_path / "trees"), str(GUIDE), str(tmp_path / "site")]
    environment = os.environ | {"MPLBACKEND": "agg"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "llms.txt").exists()
    assert hb.__version__ in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
