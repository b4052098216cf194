"""The library and its command under load: killed at any moment, ten at a time, for minutes on end, and on tables that
are very wide, have thousands of states, or columns without a value.

`HYBRIDBN_SEED` repeats a run; figures are printed.
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from effort import SHARE, examples, fresh_generators, fresh_seed, report
from inference_tools import crops, random_discrete
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")]
ROOT = Path(__file__).resolve().parents[2]
GOALS = ("out.csv", "out.parquet", "sqlite:///out.db?table=t")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_table(rng: np.random.Generator, rows: int, holes: float = 0.2) -> pd.DataFrame:
    x = rng.gamma(2, size=rows).round(3)
    table = pd.DataFrame({"x": x, "y": (x + rng.normal(size=rows)).round(3), "k": rng.poisson(3, rows).astype(float)})
    table["c"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-x)), "a", "b")
    return table.mask(rng.random(table.shape) < holes)


def start_command(*words: str, prepared: Callable[[], object] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "hybridbn", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=prepared,
    )


def measure_command(*words: str, gigabytes: float = 8) -> float:
    """Run a command that ends well, within an address space; report its CPU seconds and peak, and return the former."""
    import resource

    space = int(gigabytes * 2**30)
    process = start_command(*words, prepared=lambda: resource.setrlimit(resource.RLIMIT_AS, (space, space)))
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.communicate()
    assert process.returncode == 0, said[-2000:]
    seconds = usage.ru_utime + usage.ru_stime
    report(f"{words[0]}: {seconds:.1f} CPU seconds, {usage.ru_maxrss / 2**20:.2f} GB")
    return seconds


def contents_of(goal: str) -> object:
    """Return the bytes of an output; of a database, in which pages may lie in any order, the rows."""
    if goal.startswith("sqlite"):
        import sqlite3

        connection = sqlite3.connect("out.db")
        try:
            return list(connection.iterdump())
        finally:
            connection.close()
    return Path(goal).read_bytes()


def exists(goal: str) -> bool:
    return Path("out.db" if goal.startswith("sqlite") else goal).exists()


def test_killed_at_sixty_random_moments() -> None:
    """Moments of processor time, so that the load of the machine does not matter; some runs are killed repeatedly."""
    outcomes, seconds = Counter[str](), {}
    make_table(np.random.default_rng(0), 600).to_csv("t.csv", index=False)
    options = ("--chunk", "60", "--rounds", "3", "--quiet", "--report", "r.html", "--save-model", "m.hbn")
    expected = {}
    for goal in GOALS:
        seconds[goal] = measure_command("impute", "t.csv", goal, *options)
        expected[goal] = (contents_of(goal), Path("r.html").read_bytes(), Path("m.hbn").read_bytes())
        files = {"out.db" if goal.startswith("sqlite") else goal, "r.html", "m.hbn"}
        assert set(os.listdir()) == {"t.csv", *files}
        for name in files:
            Path(name).unlink()
    for (number, rng), goal in zip(fresh_generators(examples(60)), itertools.cycle(GOALS), strict=False):
        words = ("impute", "t.csv", goal, *options)
        killed = 0
        while killed == 0 or rng.random() < 0.3:
            moment = float(rng.uniform(0.2, 1.02) * seconds[goal])
            # the timer outlasts the start of the program; what it sends ends a process at once, as a kill does
            process = start_command(*words, prepared=partial(signal.setitimer, signal.ITIMER_PROF, moment))
            _, said = process.communicate(timeout=300)
            killed += 1
            if process.returncode == 0:
                outcomes["ended before"] += 1
                break
            assert process.returncode in (-signal.SIGPROF, 73), (number, said)
            if process.returncode == 73:  # a table that is there, of a run that was killed when all was done
                break
            outcomes["killed"] += 1
            # never half an output
            assert not exists(goal) or goal.startswith("sqlite") or contents_of(goal) == expected[goal][0], number
        code = run(words)
        parts = Path("out.db-t.parts" if goal.startswith("sqlite") else f"{goal}.parts")
        if code == 73:
            assert goal.startswith("sqlite"), number
            outcomes["found whole"] += 1
            for name in ("out.db-t.lock", *(str(p) for p in parts.glob("*"))):
                Path(name).unlink(missing_ok=True)
            if parts.exists():
                parts.rmdir()
        else:
            assert code == 0, number
        files = {"out.db" if goal.startswith("sqlite") else goal, "r.html", "m.hbn"}
        assert set(os.listdir()) == {"t.csv", *files}, number
        assert (contents_of(goal), Path("r.html").read_bytes(), Path("m.hbn").read_bytes()) == expected[goal], number
        for name in files:
            Path(name).unlink()
    report(dict(outcomes))
    assert outcomes["killed"] > outcomes["ended before"]


@pytest.mark.parametrize("goal", GOALS)
def test_ten_writers_of_one_output(goal: str) -> None:
    """One of them at least ends well, the others are told, and the output is that of one."""
    make_table(np.random.default_rng(1), 500).to_csv("t.csv", index=False)
    options = ("--chunk", "100", "--rounds", "1", "--quiet")
    writers = [start_command("impute", "t.csv", goal, *options, "--seed", str(seed)) for seed in range(10)]
    ends = [(writer.communicate(timeout=500)[1].decode(), writer.returncode) for writer in writers]
    codes = [code for _, code in ends]
    assert set(codes) <= {0, 73}, ends
    assert all("Traceback" not in said for said, _ in ends)
    assert sorted(os.listdir()) == sorted(["out.db" if goal.startswith("sqlite") else goal, "t.csv"])
    written = contents_of(goal)
    candidates = []
    for seed in (number for number, code in enumerate(codes) if code == 0):
        Path("out.db" if goal.startswith("sqlite") else goal).unlink()
        assert run(["impute", "t.csv", goal, *options, "--seed", str(seed)]) == 0
        candidates.append(contents_of(goal))
    assert written in candidates
    report(f"{codes.count(0)} of 10 wrote")


def read_resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_hours_of_service_in_minutes() -> None:
    """Learn, ask, draw, complete, save and load again and again, on ever new networks: memory stays flat.

    Five minutes of processor time in `.ci/slow`, a share of them elsewhere.
    """
    rng, budget = np.random.default_rng(fresh_seed()), 300 * SHARE
    began, samples, rounds = time.process_time(), [], 0
    while (spent := time.process_time() - began) < budget:
        rounds += 1
        data = make_table(rng, 200)
        net = hb.structures.naive_bayes(data.dropna(subset=["c"]), "c")
        as_discrete(net.posterior("c", data.drop(columns=["c"]))).probabilities.sum()
        net.posterior("x", {"c": "a", "y": float(rng.normal())}).mean()
        net.sample(50, int(rng.integers(2**31)), {"c": "a"})
        net.save("n.hbn")
        as_kind(hb.Network, hb.load("n.hbn")).log_evidence({"y": float(rng.normal())})
        crops().posteriors({"B": bool(rng.random() < 0.5), "C": float(rng.normal(5))})
        table = random_discrete(rng, 6, zeros=False)
        table.most_probable({})
        hb.write_network(table, "n.bif")
        hb.read_network("n.bif").posteriors({})
        data.to_csv("t.csv", index=False)
        if rounds % 5 == 0:
            assert run(["impute", "t.csv", "out.csv", "--rounds", "1", "--quiet"]) == 0
        gc.collect()
        samples.append((spent, read_resident_megabytes()))
    times, resident = np.array(samples).T
    # caches fill in the first part
    middle = resident[(times > 0.4 * budget) & (times < 0.6 * budget)].max()
    last = resident[times > 0.8 * budget].max()
    report(f"{rounds} rounds in {budget:.0f} CPU seconds; {resident[0]:.0f} MB, {middle:.0f} in the middle, {last:.0f}")
    assert last <= middle + max(15.0, 0.05 * middle)


def test_two_thousand_columns() -> None:
    rng = np.random.default_rng(2)
    rows, columns = 5000, 2000
    factor = rng.normal(size=(rows, 20))
    values = (factor[:, rng.integers(20, size=columns)] + rng.normal(size=(rows, columns))).round(3)
    table = pd.DataFrame(values, columns=[f"v{i}" for i in range(columns)])
    table[table.columns[::10]] = np.where(table[table.columns[::10]] > 0, "u", "d")
    table = table.mask(rng.random(table.shape) < 0.05)
    began = time.process_time()
    net = hb.structures.naive_bayes(table.dropna(subset=["v0"]), "v0")
    learned = time.process_time()
    post = net.posterior("v0", table.drop(columns=["v0"]))
    report(f"learned in {learned - began:.1f}, answered in {time.process_time() - learned:.1f} CPU seconds")
    np.testing.assert_allclose(as_discrete(post).probabilities.sum(axis=1), 1, atol=1e-12)
    known = table["v0"].notna().to_numpy()
    guess = np.array(as_discrete(net.variable("v0")).states)[as_discrete(post).probabilities.argmax(axis=1)]
    assert (guess[known] == table["v0"].to_numpy()[known]).mean() > 0.7


def test_ten_thousand_states() -> None:
    rng = np.random.default_rng(3)
    rows = 50_000
    code = rng.integers(10_000, size=rows)
    table = pd.DataFrame({"s": [f"state {k}" for k in code], "x": (code % 7 + rng.normal(size=rows)).round(3)})
    table["d"] = np.where(code % 2, "odd", "even")
    table = table.mask(rng.random(table.shape) < 0.1)
    table.to_csv("states.csv", index=False)
    measure_command("impute", "states.csv", "out.csv", "--include", "s")
    done = pd.read_csv("out.csv")
    assert done.shape == table.shape
    assert not done.isna().any().any()
    assert set(done["s"]) <= set(table["s"].dropna())
    net = hb.structures.naive_bayes(table.dropna(subset=["s"]), "s", potentials="gaussian")
    began = time.process_time()
    asked = table.drop(columns=["s"]).dropna(subset=["x"]).head(200)
    for part in (asked, asked[["d"]]):
        np.testing.assert_allclose(as_discrete(net.posterior("s", part)).probabilities.sum(axis=1), 1, atol=1e-12)
    report(f"400 posteriors of 10,000 states: {time.process_time() - began:.2f} CPU seconds")
    net.save("n.hbn")
    assert as_kind(hb.Network, hb.load("n.hbn")).variable("s") == net.variable("s")


def test_a_hundred_columns_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)
    table = make_table(rng, 1000)
    empty = pd.DataFrame({f"e{i}": np.full(1000, np.nan) for i in range(100)})
    table = pd.concat([empty.iloc[:, :50], table, empty.iloc[:, 50:]], axis=1)
    table.to_csv("empty.csv", index=False)
    # nothing tells what is missing in them, so they are named, and left as they are
    assert run(["impute", "empty.csv", "out.csv", "--rounds", "1"]) == 0
    assert "100 in all" in capsys.readouterr().err
    measure_command("impute", "empty.csv", "out.csv")
    done = pd.read_csv("out.csv")
    assert list(done) == list(table)
    assert not done[["x", "y", "k", "c"]].isna().any().any()
    assert done[list(empty)].isna().all().all()
