"""The explorer end to end, in a headless Chromium: from a server, as a file, and in a notebook with a real kernel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer_browser import Browser, Page, find_tools, start_browser
from narrowing import as_continuous, as_discrete

import hybridbn as hb
from hybridbn.explorer.page import ExplorerServer, make_page
from hybridbn.explorer.responder import Responder
from hybridbn.units import Unit
from hybridbn.variables import Grid

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).resolve().parents[2] / "hybridbn" / "explorer" / "source"
HOSTILE = "<script>alert(1)</script>"
CHIPS = "() => [...document.querySelectorAll('.hbx-chip-text')].map((chip) => chip.textContent)"
LEVELS = [0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98]
IMAGE = '"><img src=x onerror=alert(2)>'


def make_tables() -> hb.Network:
    rng = np.random.default_rng(4)
    names = ["__proto__", "constructor", HOSTILE, "rain", "wet", "slippery", IMAGE, "season"]
    nodes: list[hb.Discrete] = []
    potentials = []
    for i, name in enumerate(names):
        states = ("no", "yes") if i % 2 else (HOSTILE, "</script>", "b")
        variable, parents = hb.Discrete(name, states), tuple(nodes[max(0, i - 2) : i])
        table = rng.dirichlet(np.ones(len(states)), size=tuple(len(parent) for parent in parents))
        potentials.append(hb.Multinomial(variable, parents=parents, table=table))
        nodes.append(variable)
    return hb.Network(potentials)


def make_mixed() -> hb.Network:
    sex, sick = hb.Discrete("sex", ("female", "male")), hb.Discrete(HOSTILE, ("none", "mild", IMAGE))
    age, pressure = hb.Continuous("age"), hb.Continuous("pressure")
    return hb.Network(
        [
            hb.Multinomial(sex, table=[0.4, 0.6]),
            hb.LinearGaussian(age, intercept=54, variance=81),
            hb.LinearGaussian(pressure, parents=(age,), intercept=95, coefficients=[0.65], variance=180),
            hb.Softmax(
                sick,
                parents=(sex, pressure),
                intercept=[[0.0, -7.0, -10.0], [0.0, -6.0, -8.5]],
                coefficients=[[[0.0], [0.05], [0.07]], [[0.0], [0.05], [0.07]]],
            ),
        ]
    )


def make_named(name: str) -> hb.Network:
    from importlib.util import find_spec

    found = find_spec("pgmpy")
    if found is None or found.origin is None:
        pytest.skip("pgmpy, which brings example networks, is not installed")
    return hb.read_network(Path(found.origin).parent / "utils" / "example_models" / f"{name}.bif.gz")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start_browser() as started:
        yield started


@contextmanager
def serve(network: hb.Network, **options: Any) -> Iterator[ExplorerServer]:
    with ExplorerServer(Responder(network, **options)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def node(name: str) -> str:
    quoted = name.replace('"', '\\"')
    return f'.hbx-node[data-name="{quoted}"]'


def state(name: str, number: int) -> str:
    return f'{node(name)} [data-state="{number}"]'


def compare(page: Page, network: hb.Network, evidence: dict[str, Any], **settings: Any) -> None:
    """Compare every number that the graph shows with the posteriors of the network."""
    wanted = (network.do(settings) if settings else network).posteriors(evidence)
    shown = page.read()
    assert shown.keys() == set(network)
    for name, view in shown.items():
        if name in wanted and name not in settings:
            posterior = wanted[name]
            if isinstance(posterior.variable, hb.Discrete):
                got = [view["states"][str(i)] for i in range(len(posterior.states))]
                np.testing.assert_allclose(got, posterior.probabilities, atol=1e-6, err_msg=name)
            else:
                got = [view["mean"], view["sd"], *view["quantiles"]]
                numbers = as_continuous(posterior).numeric
                want = [numbers.mean(), numbers.std(), *numbers.quantile(LEVELS)]
                np.testing.assert_allclose(got, want, atol=1e-6, err_msg=name)
        else:
            assert view["finding"] == ("set" if name in settings else "observed")


def check_nothing_ran(page: Page) -> None:
    """No name was read as markup, and nothing was refused or failed."""
    assert page.do("log") == []
    assert page.evaluate("() => document.querySelectorAll('.hbx img, .hbx script').length") == 0


def walk_tables(page: Page, network: hb.Network) -> None:
    """Set, exclude, retract and undo findings, and intervene."""
    names = list(network)
    compare(page, network, {})
    with page.change():
        page.click(state("wet", 1))
    evidence: dict[str, Any] = {"wet": "</script>"}
    compare(page, network, evidence)
    with page.change():
        page.click(state(HOSTILE, 0), "Shift")
    evidence[HOSTILE] = {"</script>", "b"}
    compare(page, network, evidence)
    with page.change():
        page.click("button[aria-label^='Undo']")
    compare(page, network, {"wet": "</script>"})
    with page.change():
        page.press("Control+Shift+Z")
    compare(page, network, evidence)
    page.click("button:has-text('Intervene')")
    with page.change():
        page.click(state("rain", 1))
    compare(page, network, evidence, rain="yes")
    page.click("button:has-text('Observe')")
    with page.change():
        page.click(f"{node('rain')} .hbx-cross")
    with page.change():
        page.click(state("wet", 1))
    compare(page, network, {HOSTILE: evidence[HOSTILE]})
    # soft evidence
    page.click(f"{node('season')} .hbx-title")
    page.click("summary:has-text('Soft evidence')")
    with page.change():
        page.evaluate("""() => {
          const [first] = document.querySelectorAll('.hbx-slider input');
          first.value = 20;
          first.dispatchEvent(new Event('change'));
        }""")
    evidence = {HOSTILE: evidence[HOSTILE], "season": {"no": 0.2, "yes": 1.0}}
    compare(page, network, evidence)
    # why, what next, and what is most probable
    page.click("[role=tab]:has-text('Why')")
    page.wait("() => document.querySelector('.hbx-answer table')")
    text = page.evaluate("() => document.querySelector('.hbx-answer table').innerText")
    best = network.posterior("season", evidence).mode()
    explanation = network.explain("season", evidence, best)
    assert f"{explanation.prior:+.3f}".replace("-", "−")[:5] in text
    page.click("[role=tab]:has-text('Ask next')")
    page.wait("() => document.querySelector('.hbx-answer table')")
    first = page.evaluate("() => document.querySelector('.hbx-answer tbody tr').innerText")
    assert network.value_of_information("season", evidence).index[0] in first
    page.click("button:has-text('Most probable')")
    page.wait("() => document.querySelectorAll('.hbx-best:not([visibility=hidden])').length === 8")
    marked = page.evaluate("""() => [...document.querySelectorAll('.hbx-node')].map((node) => [node.dataset.name,
      [...node.querySelectorAll('.hbx-state')].findIndex(
        (row) => !row.querySelector('.hbx-best').getAttribute('visibility'))])""")
    explained = network.most_probable(evidence)
    assert dict(marked) == {name: as_discrete(network.variable(name)).states.index(explained[name]) for name in names}
    page.click("button:has-text('Most probable')")


def walk_scenarios(page: Page, network: hb.Network) -> None:
    """Save two scenarios, compare them, load one, and follow a link to it."""
    with page.change():
        page.click("button:has-text('Clear')")
    page.click("[role=tab]:has-text('Scenarios')")
    for name, number in (("dry", 0), ("wet", 1)):
        with page.change():
            page.click(state("rain", number))
        page.do("fill", selector="input[aria-label='name of the scenario']", text=name)
        page.click("button:has-text('Save')")
    page.click("button:has-text('Compare side by side')")
    page.wait("() => document.querySelector('.hbx-comparison')")
    text = page.evaluate("() => document.querySelector('.hbx-comparison').innerText")
    assert f"{as_discrete(network.posterior('wet', {'rain': 'yes'})).probabilities[0]:.1%}".replace("%", " %") in text
    assert f"{as_discrete(network.posterior('wet', {'rain': 'no'})).probabilities[0]:.1%}".replace("%", " %") in text
    page.click("button:has-text('Back to the graph')")
    with page.change():
        page.click(".hbx-scenario .hbx-link:has-text('dry')")
    compare(page, network, {"rain": "no"})
    # from a file, which may hold anything
    findings = [
        {"name": "wet", "states": [HOSTILE, "b"]},
        {"name": "gone", "state": "x"},
        {"name": "rain", "state": 7},
        3,
    ]
    held = {"scenarios": [{"name": HOSTILE, "findings": findings}, {"name": 4}, None]}
    page.do("upload", selector="input[type=file]", text=json.dumps(held))
    page.wait("() => document.querySelectorAll('.hbx-scenario').length === 3")
    with page.change():
        page.click(".hbx-scenario:nth-child(3) .hbx-link")
    compare(page, network, {"wet": {HOSTILE, "b"}})
    assert "3 findings of the scenario fit no node" in page.evaluate(
        "() => document.querySelector('.hbx-notice').innerText"
    )
    page.do("upload", selector="input[type=file]", text="no scenarios")
    page.wait("() => document.querySelector('.hbx-notice').innerText.includes('holds no scenarios')")
    with page.change():
        page.click(".hbx-scenario .hbx-link:has-text('dry')")


def test_server_answers_tables(browser: Browser) -> None:
    network = make_tables()
    with serve(network) as server:
        page = browser.open(server.address)
        walk_tables(page, network)
        walk_scenarios(page, network)
        page.click("[role=tab]:has-text('Scenarios')")
        page.click("button:has-text('Copy link')")
        link = page.evaluate("() => location.href")
        assert "#case=" in link
        other = browser.open(link, beside=page.number)  # in the browser that has the cookie
        other.wait("() => document.querySelector('.hbx-chip')")
        other.wait()
        compare(other, network, {"rain": "no"})
        check_nothing_ran(page)


def test_file_answers_tables_by_itself(browser: Browser, tmp_path: Path) -> None:
    network = make_tables()
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network, {"wet": ["b", None], "rain": ["no", "yes"]}, HOSTILE)))
    assert path.stat().st_size < 5_000_000
    page = browser.open(path.as_uri())
    walk_tables(page, network)
    walk_scenarios(page, network)
    with page.change():
        page.click("button[aria-label='Next row']")
    compare(page, network, {"wet": "b", "rain": "no"})
    with page.change():
        page.click("button[aria-label='Next row']")
    compare(page, network, {"rain": "yes"})
    check_nothing_ran(page)


@pytest.mark.parametrize("name", ["alarm", "hailfinder", "win95pts"])
def test_file_agrees_with_the_library_on_known_networks(browser: Browser, tmp_path: Path, name: str) -> None:
    """The junction tree in the page, for random findings, against the engine."""
    network = make_named(name)
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network)))
    page = browser.open(path.as_uri())
    drawn = network.sample(3, random_state=1).to_dict("records")
    rng = np.random.default_rng(2)
    for case in drawn:
        evidence = {key: case[key] for key in rng.choice(list(network), 6, replace=False)}
        packed = [{"name": key, "state": str(value)} for key, value in evidence.items()]
        code = "".join(f"%{byte:02x}" for byte in json.dumps(packed).encode())
        with page.change():
            page.evaluate(
                f"() => {{ location.hash = 'case=' + btoa(decodeURIComponent('{code}')).replaceAll('=', '') }}"
            )
        page.click("button:has-text('List')")
        wanted = network.posteriors(evidence)
        shown = page.read()
        checked = 0
        for key, view in shown.items():
            if key in wanted:
                got = {int(number): p for number, p in view["states"].items()}
                want = as_discrete(wanted[key]).probabilities
                np.testing.assert_allclose(list(got.values()), want[list(got)], atol=1e-6)
                checked += len(got)
        assert checked > 20
    check_nothing_ran(page)


def test_server_answers_mixed_networks(browser: Browser) -> None:
    network = make_mixed()
    with serve(network, data={"age": [61.5, None], "sex": ["male", "female"]}) as server:
        page = browser.open(server.address)
        compare(page, network, {})
        with page.change():
            page.do("drag", selector=f"{node('pressure')} .hbx-drag", **{"from": 0.5, "to": 0.75})
        (chip,) = page.evaluate(
            "() => [...document.querySelectorAll('.hbx-chip-text')].map((chip) => chip.textContent)"
        )
        low, high = (float(part) for part in chip.split(" ≤ pressure ≤ "))
        assert low < high
        compare(page, network, {"pressure": hb.Interval(low, high)})
        with page.change():
            page.click(f"{node('age')} .hbx-drag")
        mean = page.read()["age"]["mean"]
        compare(page, network, {"pressure": hb.Interval(low, high), "age": mean})
        with page.change():
            page.click(f"{node('pressure')} .hbx-cross")
        compare(page, network, {"age": mean})
        with page.change():
            page.click("button:has-text('Clear')")
        # by typing, and by the keyboard alone
        page.click(f"{node('pressure')} .hbx-title")
        page.do("fill", selector="input[aria-label='pressure: low']", text="140.5")
        with page.change():
            page.press("Enter")
        compare(page, network, {"pressure": hb.Interval(140.5)})
        page.evaluate("() => document.querySelector('[data-name=sex] .hbx-title').focus()")
        page.press("ArrowDown")
        page.press("ArrowDown")
        with page.change():
            page.press("Enter")
        compare(page, network, {"pressure": hb.Interval(140.5), "sex": "male"})
        with page.change():
            page.press("Delete")
        compare(page, network, {"pressure": hb.Interval(140.5)})
        page.click(f"{node('pressure')} .hbx-title")
        page.do("fill", selector="input[aria-label='pressure: measured']", text="150")
        page.do("fill", selector="input[aria-label='pressure: standard deviation of the measurement']", text="4")
        with page.change():
            page.press("Enter")
        soft = {"pressure": lambda x: np.exp(-0.5 * ((x - 150) / 4) ** 2)}
        compare(page, network, soft)
        with page.change():
            page.click("button[aria-label='Next row']")
        compare(page, network, {"age": 61.5, "sex": "male"})
        check_nothing_ran(page)


def test_file_has_answers_for_mixed_networks(browser: Browser, tmp_path: Path) -> None:
    network = make_mixed()
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network, {"age": [61.5], "sex": ["male"], "pressure": [150.0]})))
    assert path.stat().st_size < 5_000_000
    page = browser.open(path.as_uri())
    compare(page, network, {})
    with page.change():
        page.click(state(HOSTILE, 2))
    compare(page, network, {HOSTILE: IMAGE})
    with page.change():
        page.click(f"{node('age')} .hbx-drag")
    age = page.read()["age"]["mean"]
    assert age in [float(f"{q:.4g}") for q in network.posterior("age").quantile(LEVELS)]
    compare(page, network, {HOSTILE: IMAGE, "age": age})
    with page.change():
        page.click(state("sex", 0))
    compare(page, network, {HOSTILE: IMAGE, "age": age, "sex": "female"})
    with page.change():
        page.click("button[aria-label^='Undo']")
    page.click("button:has-text('Most probable')")
    assert "not computed before" in page.evaluate("() => document.querySelector('.hbx-notice').innerText")
    # what has no answer shows nothing that was true before
    with page.change():
        page.click(f"{node('pressure')} .hbx-drag")
    with page.change():
        page.click(state("sex", 0))
    assert "not computed before" in page.evaluate("() => document.querySelector('.hbx-notice').innerText")
    shown = page.evaluate("""() => [...document.querySelectorAll('.hbx-node:not([data-finding])')].map((node) => [
      ...[...node.querySelectorAll('.hbx-bar')].map((bar) => bar.getAttribute('width')),
      ...[...node.querySelectorAll('.hbx-line, .hbx-area, .hbx-stem')].map((path) => path.getAttribute('d')),
      node.querySelector('.hbx-badge').textContent])""")
    assert {part for parts in shown for part in parts} <= {"", "0.00"}
    with page.change():
        page.click(".hbx-notice button:has-text('Undo')")
    with page.change():
        page.click(f"{node('pressure')} .hbx-cross")
    compare(page, network, {HOSTILE: IMAGE, "age": age})
    # not one of its states, and intervals, which are approximate
    with page.change():
        page.click(f"{node('age')} .hbx-cross")
    with page.change():
        page.click(state(HOSTILE, 2))
    with page.change():
        page.click(state(HOSTILE, 2), "Shift")
    shares = page.read()["sex"]["states"]
    wanted = as_discrete(network.posterior("sex", {HOSTILE: {"none", "mild"}})).probabilities
    np.testing.assert_allclose([shares["0"], shares["1"]], wanted, atol=1e-6)
    with page.change():
        page.do("drag", selector=f"{node('pressure')} .hbx-drag", **{"from": 0.55, "to": 0.95})
    assert "approximate" in page.evaluate("() => document.querySelector('.hbx-notice').innerText")
    (chip,) = [text for text in page.evaluate(CHIPS) if "pressure" in text]
    low, high = (float(part) for part in chip.split(" ≤ pressure ≤ "))
    evidence = {HOSTILE: {"none", "mild"}, "pressure": hb.Interval(low, high)}
    assert page.read()["age"]["mean"] == pytest.approx(float(network.posterior("age", evidence).mean()), abs=0.7)
    page.click("button:has-text('Clear')")
    page.click("button:has-text('Most probable')")
    page.wait("() => document.querySelectorAll('.hbx-best:not([visibility=hidden])').length >= 4")
    with page.change():
        page.click("button[aria-label='Next row']")
    compare(page, network, {"age": 61.5, "sex": "male", "pressure": 150.0})
    assert "needs" in page.evaluate("() => document.querySelector('.hbx-status').innerText.replace('need ', 'needs ')")
    check_nothing_ran(page)


def make_points() -> hb.Network:
    """A class with a code, a year, an amount that is often zero, and a day."""
    group = hb.Discrete("group", ("a", "b"))
    smoker = hb.Continuous("smoker", grid=Grid(1.0, 0.0, 1.0))
    year, hours = hb.Continuous("year", grid=Grid(1.0, 2007.0, 2009.0)), hb.Continuous("hours", grid=Grid(0.01, 0.0))
    day = hb.Continuous("day", unit=Unit("date"))

    def normal(variable: hb.Continuous, mean: float, deviation: float) -> hb.LinearGaussian:
        means, variances = [mean, mean + deviation], [deviation**2] * 2
        return hb.LinearGaussian(variable, (group,), intercept=means, coefficients=[[], []], variance=variances)

    codes, years = [[0.7, 0.3 - 1e-6, 1e-6], [0.2, 0.8 - 1e-6, 1e-6]], [[0.3, 0.3, 0.4 - 1e-6, 1e-6]] * 2
    return hb.Network(
        [
            hb.Multinomial(group, table=[0.5, 0.5]),
            hb.Atoms(smoker, (group,), points=[0, 1], probabilities=codes, density=normal(smoker, 0.5, 1.0)),
            hb.Atoms(year, (group,), points=[2007, 2008, 2009], probabilities=years, density=normal(year, 2008.0, 1.0)),
            hb.Atoms(
                hours, (group,), points=[0], probabilities=[[0.4, 0.6], [0.1, 0.9]], density=normal(hours, 40.0, 8.0)
            ),
            normal(day, 19000.0, 40.0),
        ]
    )


STEMS = """() => Object.fromEntries([...document.querySelectorAll('.hbx-node')].map((node) => [node.dataset.name,
  (node.querySelector('.hbx-stem')?.getAttribute('d').match(/M/g) ?? []).length]))"""
TICKS = """() => Object.fromEntries([...document.querySelectorAll('.hbx-node')].map((node) => [node.dataset.name,
  [...node.querySelectorAll('.hbx-ticks text')].map((text) => text.textContent)]))"""


@pytest.mark.parametrize("host", ["server", "file", "file of a saved model"])
def test_numbers_with_points_have_stems_and_only_values_that_there_are(
    browser: Browser, tmp_path: Path, host: str
) -> None:
    network = make_points()
    if host == "file of a saved model":
        network.save(tmp_path / "model.hbn")
        loaded = hb.load(tmp_path / "model.hbn")
        assert isinstance(loaded, hb.Network)
        network = loaded
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network)))
    with serve(network) as server:
        page = browser.open(server.address if host == "server" else path.as_uri())
        compare(page, network, {})
        assert page.evaluate(STEMS) == {"group": 0, "smoker": 2, "year": 3, "hours": 1, "day": 0}
        ticks = page.evaluate(TICKS)
        assert (ticks["smoker"], ticks["year"]) == (["0", "1"], ["2007", "2008", "2009"])
        assert all(text[:3] == "202" for text in ticks["day"])
        evidence: dict[str, Any] = {}
        for name, share, wanted in (("smoker", 0.6, 1.0), ("year", 0.45, 2008.0), ("hours", 0.01, 0.0)):
            with page.change():
                page.do("drag", selector=f"{node(name)} .hbx-drag", **{"from": share, "to": share})
            evidence[name] = wanted
            assert page.read()[name]["mean"] == wanted
            compare(page, network, evidence)
        if host != "server":
            return
        told = page.evaluate("() => document.querySelector('.hbx-likelihood').textContent")
        assert told == f"probability of these findings {np.exp(network.log_evidence(evidence)):.4f}"
        with page.change():
            page.click("button:has-text('Clear')")
        page.click(f"{node('smoker')} .hbx-title")
        page.do("fill", selector="input[aria-label='smoker: value']", text="0.5")
        page.press("Enter")
        page.wait("() => document.querySelector('.hbx-notice').innerText.includes('whole numbers from 0 to 1')")
        assert page.evaluate(CHIPS) == []
        page.do("fill", selector="input[aria-label='smoker: value']", text="1")
        with page.change():
            page.press("Enter")
        compare(page, network, {"smoker": 1.0})
        check_nothing_ran(page)


def test_two_tabs_do_not_disturb_each_other_and_a_dead_server_is_told(browser: Browser, tmp_path: Path) -> None:
    network = make_tables()
    network.save(tmp_path / "model.hbn")
    command = [sys.executable, "-m", "hybridbn", "explore", str(tmp_path / "model.hbn"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            first = browser.open(address)
            own = first.evaluate("() => location.href")
            assert address.startswith(own)
            assert own != address
            second = browser.open(own, beside=first.number)
            with first.change():
                first.click(state("rain", 0))
            with second.change():
                second.click(state("rain", 1))
            compare(first, network, {"rain": "no"})
            compare(second, network, {"rain": "yes"})
        finally:
            process.kill()
    with first.change():
        first.click(state("season", 1))
    assert "does not answer" in first.evaluate("() => document.querySelector('.hbx-notice').innerText")
    assert first.evaluate("() => document.querySelectorAll('.hbx-chip').length") == 2
    # retracting everything needs no answer
    with first.change():
        first.click("button:has-text('Clear')")
    compare(first, network, {})


def test_the_verb_ends_in_peace(tmp_path: Path) -> None:
    make_tables().save(tmp_path / "model.hbn")
    command = [sys.executable, "-m", "hybridbn", "explore", str(tmp_path / "model.hbn"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (0, "")


def test_contradictions_are_told_and_can_be_undone(browser: Browser, tmp_path: Path) -> None:
    a, b = hb.Discrete("a", ("0", "1")), hb.Discrete("b", ("0", "1"))
    network = hb.Network([hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, parents=(a,), table=np.eye(2))])
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network)))
    with serve(network) as server:
        for address in (server.address, path.as_uri()):
            page = browser.open(address)
            with page.change():
                page.click(state("a", 0))
            with page.change():
                page.click(state("b", 1))
            assert "contradict" in page.evaluate("() => document.querySelector('.hbx-notice').innerText")
            with page.change():
                page.click(".hbx-notice button:has-text('Undo')")
            compare(page, network, {"a": "0"})


def test_forty_nodes_are_drawn_within_a_tenth_of_a_second(browser: Browser, tmp_path: Path) -> None:
    network = make_named("alarm")
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network)))
    with serve(network) as server:
        for address in (server.address, path.as_uri()):
            page = browser.open(address)
            select = "document.querySelector('[data-name=HRBP] [data-state=\"{}\"]')"
            click = f"() => {select}.dispatchEvent(new MouseEvent('click', {{{{bubbles: true}}}}))"
            ready = "() => !document.querySelector('.hbx').hasAttribute('data-pending')"
            times = page.do("trace", actions=[click.format(i % 3) for i in range(20)], ready=ready)
            print(f"figures: 37 nodes redrawn in {np.median(times):.1f} ms of scripting, {max(times):.1f} at most")
            assert np.median(times) < 100


def test_a_large_network_is_a_map_with_neighborhoods(browser: Browser, tmp_path: Path) -> None:
    network = make_named("pigs")
    path = tmp_path / "page.html"
    path.write_text(make_page(Responder(network)))
    assert path.stat().st_size < 5_000_000
    with serve(network) as server:
        for address in (server.address, path.as_uri()):
            page = browser.open(address)
            assert page.evaluate("() => document.querySelectorAll('.hbx-map-node').length") == 441
            shown = page.read()
            assert 1 < len(shown) <= 25
            name = next(name for name in network if name not in shown)
            page.do("fill", selector=".hbx-search", text=name)
            page.press("Enter")
            page.wait(f"() => document.querySelector('.hbx-node[data-name={name}]')")
            with page.change():
                page.click(state(name, 2))
            wanted = network.posteriors({name: as_discrete(network.variable(name)).states[2]})
            for other, view in page.read().items():
                if other != name:
                    np.testing.assert_allclose(
                        list(view["states"].values()), as_discrete(wanted[other]).probabilities, atol=1e-6
                    )


@pytest.mark.parametrize("width", [420, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overlaps(browser: Browser, width: int, dark: bool) -> None:
    for network in (make_mixed(), make_tables(), make_named("alarm")):
        with serve(network) as server:
            page = browser.open(server.address, width=width, height=800, dark=dark)
            boxes = page.evaluate("""() => [...document.querySelectorAll('.hbx-frame, .hbx-button, .hbx-field')].filter(
              (each) => each.checkVisibility()).map((each) => { const r = each.getBoundingClientRect();
              return [r.left, r.top, r.right, r.bottom, each.classList.contains('hbx-frame')]; })""")
            frames = [box for box in boxes if box[4]]
            for i, a in enumerate(frames):
                for b in frames[:i]:
                    assert not (a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1)
            controls = [box for box in boxes if not box[4]]
            assert all(box[0] >= -1 and box[2] <= width + 1 for box in controls)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert page.evaluate("() => document.querySelector('.hbx').dataset.theme") == ("dark" if dark else "light")


def test_a_click_counts_although_the_panel_below_changes(browser: Browser) -> None:
    network = make_mixed()
    with serve(network) as server:
        page = browser.open(server.address, width=420, height=700)
        evidence: dict[str, Any] = {}
        for name, number, label in (("sex", 1, "male"), (HOSTILE, 2, IMAGE)):
            with page.change():
                page.click(state(name, number))
            evidence[name] = label
            compare(page, network, evidence)


def test_screen_readers_are_told(browser: Browser) -> None:
    with serve(make_mixed()) as server:
        page = browser.open(server.address)
        with page.change():
            page.click(state("sex", 1))
        row = "document.querySelector('[data-name=sex] [data-state=\"1\"]')"
        assert page.evaluate(f"() => {row}.getAttribute('aria-label')") == "sex: male, 100 %"
        assert page.evaluate(f"() => {row}.getAttribute('aria-pressed')") == "true"
        assert "1 finding" in page.evaluate("() => document.querySelector('[aria-live]').textContent")
        unnamed = page.evaluate("""() => [...document.querySelectorAll('.hbx button, .hbx input, .hbx [role=button]')]
          .filter((each) => !(each.getAttribute('aria-label') || each.textContent.trim() || each.labels?.length))
          .length""")
        assert unnamed == 0
        assert page.evaluate("() => document.querySelectorAll('.hbx-graph [tabindex=\"0\"]').length") == 1


NOTEBOOK = """
import marimo
app = marimo.App(width="full")

@app.cell
def _():
    import sys
    sys.path[:0] = {folders!r}
    from test_explorer_browser import make_mixed
    make_mixed().explore({{"sex": "male"}})
    return

if __name__ == "__main__":
    app.run()
"""

FOLDERS = [str(folder) for folder in Path(__file__).resolve().parents[:2]]


def test_notebook_with_a_real_kernel(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    pytest.importorskip("marimo", reason="marimo, whose notebooks run in a browser without more, is not installed")
    path = tmp_path / "notebook.py"
    path.write_text(NOTEBOOK.format(folders=FOLDERS))
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", str(path), "--headless", "--no-token", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            network = make_mixed()
            page = Page(browser, browser.send("open", url=f"http://127.0.0.1:{port}/"))
            page.wait("() => document.querySelector('.hbx-chip')")
            page.wait()
            compare(page, network, {"sex": "male"})
            with page.change():
                page.click(state(HOSTILE, 1))
            compare(page, network, {"sex": "male", HOSTILE: "mild"})
            with page.change():
                page.do("drag", selector=f"{node('pressure')} .hbx-drag", **{"from": 0.4, "to": 0.6})
            chips = page.evaluate(
                "() => [...document.querySelectorAll('.hbx-chip-text')].map((chip) => chip.textContent)"
            )
            low, high = (float(part) for part in chips[-1].split(" ≤ pressure ≤ "))
            compare(page, network, {"sex": "male", HOSTILE: "mild", "pressure": hb.Interval(low, high)})
            with page.change():
                page.click("button:has-text('Clear')")
            compare(page, network, {})
        finally:
            process.terminate()


CELL = """
import sys
sys.path[:0] = {folders!r}
from test_explorer_browser import make_mixed
explorer = make_mixed().explore({{"sex": "male"}})
explorer
"""
MODEL = """() => {{
  const values = {values};
  const listeners = {{}};
  window.sent = [];
  window.receive = (event, data) => (listeners[event] ?? []).forEach((listener) => listener(data));
  const model = {{
    get: (name) => values[name],
    set: (name, value) => {{ values[name] = value; }},
    save_changes: () => {{}},
    on: (event, listener) => {{ (listeners[event] ??= []).push(listener); }},
    off: () => {{}},
    send: (content) => window.sent.push(content),
  }};
  const source = new Blob([{module}], {{type: 'text/javascript'}});
  import(URL.createObjectURL(source)).then(({{default: {{render}}}}) => {{
    const el = document.body.appendChild(document.createElement('div'));
    render({{model, el}});
  }});
}}"""


def test_contract_of_anywidget_with_a_kernel_of_jupyter(browser: Browser) -> None:
    """The module with a model as anywidget gives it; its messages go to a real kernel of Jupyter and back."""
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    start_new_kernel = pytest.importorskip("jupyter_client.manager", reason="no Jupyter").start_new_kernel
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries of Jupyter
        manager, client = start_new_kernel(kernel_name="python3")
        try:
            shown: list[dict[str, Any]] = []

            def listen(message: dict[str, Any]) -> None:
                shown.append(message)

            cell = CELL.format(folders=FOLDERS)
            client.execute_interactive(cell, output_hook=listen, timeout=60)
            opened = [m["content"] for m in shown if m["msg_type"] == "comm_open"]
            widget = next(content for content in opened if "document" in content["data"]["state"])
            comm, held = widget["comm_id"], widget["data"]["state"]
            data = next(m["content"]["data"] for m in shown if m["msg_type"] in ("execute_result", "display_data"))
            assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == comm
            assert "<svg" in data["text/html"]
            page = Page(browser, browser.send("open", url="about:blank"))
            values = json.dumps({key: held[key] for key in ("document", "findings", "scenarios")})
            page.evaluate(MODEL.format(values=values, module=json.dumps(held["_esm"])))

            def forward() -> None:
                """Pass on what the module sends, and what the kernel answers."""
                page.wait("() => window.sent.length")
                for content in page.evaluate("() => window.sent.splice(0)"):
                    body = {"comm_id": comm, "data": {"method": "custom", "content": content}}
                    client.shell_channel.send(client.session.msg("comm_msg", body))
                    while True:
                        message = client.get_iopub_msg(timeout=60)
                        if message["msg_type"] == "comm_msg" and message["content"]["data"]["method"] == "custom":
                            break
                    answer = json.dumps(message["content"]["data"]["content"])
                    page.evaluate(f"() => window.receive('msg:custom', {answer})")
                page.wait()

            network = make_mixed()
            forward()
            compare(page, network, {"sex": "male"})
            page.click(state(HOSTILE, 2))
            forward()
            compare(page, network, {"sex": "male", HOSTILE: IMAGE})
            check_nothing_ran(page)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def test_module_is_what_its_sources_build(tmp_path: Path) -> None:
    node_path, _, _ = find_tools()
    named = os.environ.get("HYBRIDBN_NODE_MODULES", "")
    look = "console.log(require.resolve('esbuild/bin/esbuild', {paths: [process.argv[1], process.cwd()]}))"
    found = subprocess.run([node_path, "-e", look, named or "."], capture_output=True, text=True, cwd=SOURCE)
    if found.returncode:
        pytest.skip("esbuild is not installed; HYBRIDBN_NODE_MODULES may name the folder that has it")
    version = subprocess.run([found.stdout.strip(), "--version"], capture_output=True, text=True).stdout.strip()
    wanted = json.loads((SOURCE / "package.json").read_text())
    if version != wanted["devDependencies"]["esbuild"]:
        pytest.skip(f"esbuild {version} is installed, and the module is built by another version")
    shutil.copytree(SOURCE, tmp_path / "source", ignore=shutil.ignore_patterns("node_modules"))
    words = wanted["scripts"]["build"].split()
    assert words[0] == "esbuild"
    subprocess.run([found.stdout.strip(), *words[1:]], cwd=tmp_path / "source", check=True, capture_output=True)
    assert (tmp_path / "explorer.js").read_bytes() == (SOURCE.parent / "explorer.js").read_bytes()
