"""The README's Python blocks, pasted in order into one session."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_blocks_can_be_pasted_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    session: dict[str, object] = {}
    for number, block in enumerate(blocks):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            exec(compile(block, f"block {number} of README.md", "exec"), session)
    pyplot.close("all")
    # what the comments say
    hb, net, market = session["hb"], session["net"], session["market"]
    evidence = {"age": 58, "sex": "female", "rate": hb.Interval(100, 120)}  # type: ignore[attr-defined]
    assert round(net.posterior("disease", evidence)["yes"], 3) == 0.336  # type: ignore[attr-defined]
    shown = "<posterior density of 'price': mean 4.2787, sd 1.23148>"
    assert repr(market.posterior("price", {"buy": "no"})) == shown  # type: ignore[attr-defined]


def test_it_fits_one_screen_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 70
    linked = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    assert len(linked) > 8
    assert [path for path in linked if not (ROOT / path).exists()] == []


PAPERS = ROOT / "examples" / "papers"


def test_every_paper_has_a_section_with_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    reproduce = importlib.import_module("reproduce")
    text = (PAPERS / "README.md").read_text(encoding="utf-8")
    for name, (script, *_) in reproduce.STUDIES.items():
        assert (PAPERS / f"{script}.py").exists()
        section = re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
        assert section is not None
        assert "```text" in section[1]
        assert "Measured by" in section[1]
        for picture in re.findall(r"\]\((pictures/\S+)\)", section[1]):
            assert (PAPERS / picture).exists()

    # what a run left is written into its section, and the other sections stay
    monkeypatch.setattr(reproduce, "HERE", tmp_path)
    (tmp_path / "README.md").write_text("<!-- frank1998 -->\nold\n<!-- end frank1998 -->\nprose\n")
    (tmp_path / "results" / "quick" / "frank1998").mkdir(parents=True)
    (tmp_path / "results" / "quick" / "frank1998.txt").write_text("Table 2\n\ndrawn: somewhere\n")
    (tmp_path / "results" / "quick" / "frank1998" / "spiral.png").write_bytes(b"picture")
    options = ["--report", "--quick", "--results", str(tmp_path / "results"), "--only", "frank1998", "vilalta2003"]
    reproduce.main(options)
    written = (tmp_path / "README.md").read_text()
    assert "a quick run (`frank1998.py --parts classification spiral --repetitions 1`)" in written
    assert "```text\nTable 2\n```" in written
    assert "prose" in written
    assert "old" not in written
    assert "somewhere" not in written
    assert (tmp_path / "pictures" / "frank1998_spiral.png").read_bytes() == b"picture"
