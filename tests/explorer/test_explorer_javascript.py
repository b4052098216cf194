"""The explorer's functions that need no page, run by node's own runner of tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted((HERE / "javascript").glob("*.test.mjs"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_functions_of_the_explorer(path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    done = subprocess.run([node, "--test", str(path)], capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr
