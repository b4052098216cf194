"""The README's Python blocks, pasted in order into one session."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_blocks_can_be_pasted_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 6
    session: dict[str, object] = {}
    for number, block in enumerate(blocks):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            exec(compile(block, f"block {number} of README.md", "exec"), session)
    pyplot.close("all")
    # what the comments of the first block say
    net = session["hb"].load("market.hbn")  # type: ignore[attr-defined]
    assert repr(net.posterior("price", {"buy": "no"})) == "<posterior density of 'price': mean 4.2787, sd 1.23148>"
