"""Large published networks within stated limits of memory, each in a process of its own; run with -s to see the figures."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from inference_tools import pgmpy_file

import hybridbn as hb
from hybridbn.errors import TooWide

HEADER = """
import json, resource, sys, time
import numpy as np
import hybridbn as hb
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
net = hb.read_network(sys.argv[1])
before = peak()
start = time.perf_counter()
"""
FOOTER = """
report.update(seconds=time.perf_counter() - start, before=before, peak=peak())
print(json.dumps(report))
"""


def limited(path, gigabytes: float, body: str) -> dict:
    """Run statements with the address space limited; they leave what they found in `report`."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        # the interpreter and its libraries reserve some address space that they never use
        space = int((gigabytes + 0.75) * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (space, space))

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEADER + textwrap.dedent(body) + FOOTER, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=1200,
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    print(path.name, {k: round(v, 2) if isinstance(v, float) else v for k, v in report.items()})
    return report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pigs", "munin1"])
def test_all_marginals_within_two_gigabytes(name):
    report = limited(
        pgmpy_file(f"{name}.bif.gz"),
        2,
        """
        found = net.posteriors()
        report = {"nodes": len(found), "worst": max(abs(p.probabilities.sum() - 1) for p in found.values())}
        """,
    )
    assert report["worst"] < 1e-9
    assert report["peak"] < 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["link", "diabetes"])
def test_single_queries_within_four_gigabytes(name):
    report = limited(
        pgmpy_file(f"{name}.bif.gz"),
        4,
        """
        rng = np.random.default_rng(0)
        names = list(net)
        case = net.sample(1, 0).iloc[0].to_dict()
        leaves = [n for n in names if not net.out_degree(n)]
        evidence = {str(n): case[n] for n in rng.choice(leaves, min(5, len(leaves)), replace=False)}
        worst = 0.0
        times = []
        for target in rng.choice([n for n in names if n not in evidence], 4, replace=False):
            began = time.perf_counter()
            prior, post = net.posterior(str(target)), net.posterior(str(target), evidence)
            times.append(time.perf_counter() - began)
            worst = max(worst, abs(prior.probabilities.sum() - 1), abs(post.probabilities.sum() - 1))
        report = {"worst": worst, "slowest": max(times)}
        """,
    )
    assert report["worst"] < 1e-9
    assert report["peak"] < 4


@pytest.mark.slow
def test_a_lower_budget_is_kept():
    net = hb.read_network(pgmpy_file("munin1.bif.gz"))
    start = time.process_time()
    with pytest.raises(TooWide):
        net.posteriors(max_bytes=20e6)
    seconds = time.process_time() - start
    print("munin1 refused after", round(seconds, 2), "s")
    assert seconds < 1


@pytest.mark.slow
def test_a_grid_is_refused_before_anything_is_allocated():
    resource = pytest.importorskip("resource")
    variables = {(i, j): hb.Discrete(f"x{i}_{j}", (0, 1)) for i in range(30) for j in range(30)}
    rng = np.random.default_rng(0)
    potentials = []
    for (i, j), variable in variables.items():
        parents = [variables[p] for p in ((i - 1, j), (i, j - 1)) if p in variables]
        potentials.append(hb.Multinomial(variable, parents, table=rng.dirichlet([1, 1], size=[2] * len(parents))))
    net = hb.Network(potentials)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for ask in (net.posteriors, lambda: net.posterior("x15_15", {"x29_29": 0})):
        start = time.process_time()
        with pytest.raises(TooWide):
            ask()
        seconds = time.process_time() - start
        print("grid refused after", round(seconds, 2), "s")
        assert seconds < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.slow
def test_a_million_rows_stay_below_a_gigabyte():
    report = limited(
        pgmpy_file("alarm.bif.gz"),
        4,
        """
        import pandas as pd
        rng = np.random.default_rng(0)
        frame = net.sample(1_000_000, 0)
        frame = frame.mask(rng.random(frame.shape) < 0.3).astype("category")
        before = peak()
        start = time.perf_counter()
        post = net.posterior("LVFAILURE", frame)
        assert np.isfinite(post.probabilities).all()
        report = {"added": peak() - before}
        """,
    )
    assert report["added"] < 1
