"""Print what two threads hold and gain: python examples/benchmarks/threads.py [CASE ...].

For each piece of work on a table: the share of moments in which some thread holds the interpreter's lock while two
threads share the rows, the wall-clock seconds of one thread over those of two, and the CPU-seconds of two over those of
one; and whether the results are the same to the last bit. At a share of .6 two cores gain at most 1.67; the gain itself
is only seen where two cores are idle. Each case runs in a fresh process. Unix only.

The share is sampled: a thread sleeps for a random time, and where it finds the lock taken on waking, it has to wait, so
that the system counts one more voluntary context switch of the thread. Under a real-time priority it would wake when
another thread waits, so that the share would be too large; the gain is told best so.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rows import Report, parser, shipped

import hybridbn as hb
from hybridbn import structures

LIMIT = 0.6
SLEEP = 0.004
"""Seconds between samples on average."""

Work = Callable[[int | None], Any]
"""A function of `n_jobs`."""


def share_of_lock(job: Callable[[], Any], least: float = 1.0) -> float:
    """Return the share of moments in which the lock is taken while a job runs, again and again for some seconds."""
    ended, rng, samples = threading.Event(), np.random.default_rng(0), []

    def sample() -> None:
        while not ended.is_set():
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            time.sleep(rng.exponential(SLEEP))
            samples.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before > 1)

    sampler = threading.Thread(target=sample)
    sampler.start()
    start = time.perf_counter()
    while time.perf_counter() - start < least:
        job()
    ended.set()
    sampler.join()
    return float(np.mean(samples))


def clocks(job: Callable[[], Any]) -> tuple[float, float]:
    """Return wall-clock and CPU-seconds of a job."""
    wall, processor = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - processor


def write(answer: Any) -> Any:
    """Return the bits of an answer."""
    if isinstance(answer, hb.Network):
        states = [(name, answer.potential(name).to_dict()) for name in answer]
        return [(name, key, np.asarray(value).tobytes()) for name, state in states for key, value in state.items()]
    if isinstance(answer, dict):
        return {name: write(own) for name, own in answer.items()}
    if hasattr(answer, "probabilities"):
        return answer.probabilities.tobytes()
    if hasattr(answer, "mean") and hasattr(answer, "log_evidence"):
        return answer.mean().tobytes()
    if isinstance(answer, hb.Table):
        answer = answer.to_pandas()
    return answer.to_csv() if hasattr(answer, "to_csv") else np.asarray(answer).tobytes()


def measure(work: Work) -> tuple[float, float, float, bool]:
    """Return the share of the lock, the gain in time, the costs in CPU-seconds, and whether the answers are equal."""
    one, two = partial(work, 1), partial(work, 2)
    equal = write(one()) == write(two())
    times = np.array([[clocks(one), clocks(two)] for _ in range(3)]).min(axis=0)
    return share_of_lock(two), times[0, 0] / times[1, 0], times[1, 1] / times[0, 1], equal


def make_codes(rows: int) -> hb.Table:
    """A chain of twenty columns of five states."""
    rng = np.random.default_rng(0)
    data, above = {}, rng.integers(0, 5, rows, dtype=np.int8)
    for j in range(20):
        above = (rng.integers(0, 5, rows, dtype=np.int8) + above * (rng.random(rows) < 0.4)) % 5
        data[f"x{j:02}"] = above
    return hb.Table(data, discrete=list(data))


def make_numbers(rows: int, holes: float = 0.0) -> hb.Table:
    """A class and ten numbers."""
    rng = np.random.default_rng(0)
    c = rng.integers(0, 3, rows)
    values = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 10)) + rng.normal(size=(rows, 10)) + c[:, None]
    values[rng.random(values.shape) < holes] = np.nan
    return hb.Table(
        {"c": np.array(list("uvw"), dtype=object)[c]} | {f"x{i}": column for i, column in enumerate(values.T)}
    )


def alarm(rows: int) -> tuple[hb.Network, hb.Table]:
    """A network, and a sample in which 30 % of the cells are missing."""
    network = hb.read_network(shipped("alarm"))
    frame = network.sample(rows, random_state=0).astype(object)
    return network, hb.Table(frame.mask(np.random.default_rng(0).random(frame.shape) < 0.3))


def answer(kind: str) -> Work:
    network, table = alarm(200_000 if kind == "posterior" else 60_000)
    if kind == "posterior":
        hidden = table.drop(["HISTORY"])
        return lambda n_jobs: network.posterior("HISTORY", hidden, n_jobs=n_jobs)
    return lambda n_jobs: getattr(network, kind)(table, n_jobs=n_jobs)


def predict(name: str, rows: int, holes: float, target: str = "c", **options: Any) -> Work:
    network = getattr(structures, name)(make_numbers(2000), target, **options)
    table = make_numbers(rows, holes).drop([target])
    return lambda n_jobs: network.posterior(target, table, n_jobs=n_jobs)


def predict_gaussian(kind: str) -> Work:
    network = structures.hill_climb(make_numbers(2000).drop(["c"]), potentials="gaussian")
    table = make_numbers(400_000, 0.3).drop(["c"])
    if kind == "posterior":
        hidden = table.drop(["x0"])
        return lambda n_jobs: network.posterior("x0", hidden, n_jobs=n_jobs)
    return lambda n_jobs: getattr(network, kind)(table, n_jobs=n_jobs)


def learn(name: str, table: Callable[[], hb.Table], **options: Any) -> Work:
    data = table()
    return lambda n_jobs: getattr(structures, name)(data, n_jobs=n_jobs, **options)


def fit_chain(rows: int) -> Work:
    table = make_numbers(rows)
    arcs = [*zip(table.names, table.names[1:], strict=False)]
    return lambda n_jobs: hb.fit(arcs, table, "gaussian", n_jobs=n_jobs)


def maximize(rows: int) -> Work:
    network, table = alarm(rows)
    return lambda n_jobs: hb.fit(list(network.edges), table, missing="em", n_jobs=n_jobs)


def impute(rows: int) -> Work:
    table = make_numbers(rows, 0.1)
    return lambda n_jobs: hb.impute(table, random_state=0, n_jobs=n_jobs)


CASES: dict[str, Callable[[], Work]] = {
    "posterior, alarm, 2e5": partial(answer, "posterior"),
    "posteriors, alarm, 6e4": partial(answer, "posteriors"),
    "log density, alarm, 6e4": partial(answer, "log_density"),
    "most probable, alarm, 6e4": partial(answer, "most_probable"),
    "posterior, Gaussian, 4e5": partial(predict_gaussian, "posterior"),
    "posteriors, Gaussian, 4e5": partial(predict_gaussian, "posteriors"),
    "log density, Gaussian, 4e5": partial(predict_gaussian, "log_density"),
    "naive Bayes, normal, class, 5e5": partial(predict, "naive_bayes", 500_000, 0.2, potentials="gaussian"),
    "naive Bayes, mixtures, class, 5e5": partial(predict, "naive_bayes", 500_000, 0.2, potentials="mte"),
    "naive Bayes, mixtures, number, 2e5": partial(predict, "naive_bayes", 200_000, 0.2, target="x0", potentials="mte"),
    "naive Bayes, kernels, class, 2e4": partial(predict, "naive_bayes", 20_000, 0.2, potentials="kernel"),
    "naive Bayes, kernels, number, 200": partial(predict, "naive_bayes", 200, 0.2, target="x0", potentials="kernel"),
    "tan of mixtures, class, 2e4": partial(predict, "tan", 20_000, 0.2, potentials="mte"),
    "logistic, 2e5": partial(predict, "logistic", 200_000, 0.0),
    "regression, 2e5": partial(predict, "regression", 200_000, 0.0, target="x0"),
    "regression, holes, 2e4": partial(predict, "regression", 20_000, 0.2, target="x0"),
    "model tree, 5e4": partial(predict, "model_tree", 50_000, 0.0, target="x0"),
    "random forest, 5e4": partial(predict, "random_forest", 50_000, 0.0),
    "learn: naive_bayes of codes, 2e6": partial(learn, "naive_bayes", partial(make_codes, 2_000_000), target="x00"),
    "learn: tan of codes, 4e6": partial(learn, "tan", partial(make_codes, 4_000_000), target="x00"),
    "learn: hill_climb of codes, 1e6": partial(learn, "hill_climb", partial(make_codes, 1_000_000)),
    "learn: nb_tree of codes, 2e5": partial(learn, "nb_tree", partial(make_codes, 200_000), target="x00"),
    "learn: naive_bayes of numbers, 1e6": partial(
        learn, "naive_bayes", partial(make_numbers, 1_000_000), target="c", potentials="gaussian"
    ),
    "learn: hill_climb of numbers, 2e5": partial(
        learn, "hill_climb", partial(make_numbers, 200_000), potentials="gaussian"
    ),
    "learn: fit of numbers, 1e6": lambda: fit_chain(1_000_000),
    "learn: selective_naive_bayes, 2e5": partial(
        learn, "selective_naive_bayes", partial(make_numbers, 200_000), target="c", potentials="gaussian"
    ),
    "learn: logistic, 1e5": partial(learn, "logistic", partial(make_numbers, 100_000), target="c"),
    "learn: expectation maximization, 5e3": partial(maximize, 5_000),
    "impute, 1e5": partial(impute, 100_000),
}


def bench(report: Report, name: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arguments = [sys.executable, __file__, "--case", name]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return print(f"{name:<40} {(done.stderr.strip().splitlines() or ['ended'])[-1]:.70}", flush=True)
    share, gain, cost, equal = json.loads(done.stdout.splitlines()[-1])
    report.add(name, share, bound=LIMIT, gain=gain, cost=cost, equal=equal)
    verdict = ("" if share <= LIMIT else "  ABOVE THE LIMIT") + ("" if equal else "  NOT EQUAL")
    return print(f"{name:<40}{share:>10.2f}{gain:>10.2f}{cost:>10.2f}{verdict}", flush=True)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("cases", nargs="*", metavar="CASE", help="words of the names of cases")
    options_parser.add_argument("--case", choices=CASES, help="do a case in this process")
    options = options_parser.parse_args()
    if options.case:
        warnings.simplefilter("ignore")
        return print(json.dumps(measure(CASES[options.case]())))
    print(f"{'work':<40}{'lock held':>10}{'gain':>10}{'CPU':>10}")
    with Report(options) as report:
        for name in CASES:
            if not options.cases or any(word in name for word in options.cases):
                report.run(bench, name)
    return None


if __name__ == "__main__":
    main()
