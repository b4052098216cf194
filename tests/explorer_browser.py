"""A headless Chromium for tests of the explorer, driven by playwright-core; tests are skipped where there is none.

playwright-core is looked for in the folder that the environment variable HYBRIDBN_NODE_MODULES names, and where node
itself would find it; Chromium is the one that HYBRIDBN_CHROMIUM names, or the system's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_suffix(".mjs")
LOOK = "console.log(require.resolve('playwright-core/package.json', {paths: [process.argv[1], process.cwd()]}))"
READY = "() => !document.querySelector('.hbx').hasAttribute('data-pending')"


class Page:
    """One tab."""

    def __init__(self, browser: Browser, number: int) -> None:
        self.browser, self.number = browser, number

    def do(self, command: str, **options: Any) -> Any:
        return self.browser.send(command, page=self.number, **options)

    def evaluate(self, code: str) -> Any:
        return self.do("evaluate", code=code)

    def click(self, selector: str, *modifiers: str) -> None:
        self.do("click", selector=selector, modifiers=list(modifiers))

    def press(self, key: str) -> None:
        self.do("press", key=key)

    def wait(self, code: str = READY) -> None:
        self.do("wait", code=code)

    def settle(self, before: int) -> None:
        """Wait until an answer after this version of the beliefs is drawn."""
        self.wait(f"() => Number(document.querySelector('.hbx').dataset.version) > {before}")
        self.wait()
        self.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def version(self) -> int:
        return int(self.evaluate("() => Number(document.querySelector('.hbx').dataset.version)"))

    @contextmanager
    def change(self) -> Iterator[None]:
        """Wait until what the statement does to the findings is answered."""
        before = self.version
        yield
        self.settle(before)

    def read(self) -> dict[str, dict[str, Any]]:
        """Return what the graph shows of each node, in full precision."""
        return dict(
            self.evaluate("""() => [...document.querySelectorAll('.hbx-node')].map((node) => [node.dataset.name, {
            finding: node.dataset.finding ?? null,
            mean: node.dataset.mean === undefined ? null : Number(node.dataset.mean),
            sd: node.dataset.sd === undefined ? null : Number(node.dataset.sd),
            quantiles: (node.dataset.quantiles ?? '').split(' ').filter(Boolean).map(Number),
            states: Object.fromEntries([...node.querySelectorAll('.hbx-state[data-state]')].map(
              (row) => [row.dataset.state, Number(row.dataset.probability)])),
        }])""")
        )


class Browser:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def send(self, command: str, **options: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"command": command, **options}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise AssertionError(f"{command} {str(options)[:500]}: {answer['error']}")
        return answer["value"]

    def open(self, url: str, **options: Any) -> Page:
        page = Page(self, self.send("open", url=url, **options))
        page.wait("() => document.querySelector('.hbx-node')")
        page.wait()
        return page


def find_tools() -> tuple[str, str, str]:
    """Return node, the folder from which playwright-core is found, and Chromium; skip where any is missing."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    named = os.environ.get("HYBRIDBN_NODE_MODULES", "")
    found = subprocess.run([node, "-e", LOOK, named or "."], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("playwright-core is not installed; HYBRIDBN_NODE_MODULES may name the folder that has it")
    names = [os.environ.get("HYBRIDBN_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    chromium = next((path for name in names if name and (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("Chromium is not installed; HYBRIDBN_CHROMIUM may name it")
    return node, str(Path(found.stdout.strip()).parents[2]), chromium


@contextmanager
def start_browser() -> Iterator[Browser]:
    node, folder, chromium = find_tools()
    process = subprocess.Popen(
        [node, str(SCRIPT), folder, chromium], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Browser(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()
