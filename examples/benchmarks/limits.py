"""Print seconds and memory beside the limits that are set for them: python examples/benchmarks/limits.py [CASE ...].

Each case runs in a fresh process on one thread, so nothing is compiled or cached before it. Data are made and modules
imported before the clock starts, but their memory counts where a limit is one of the process. A factor is the figure
over its limit: at most one is wanted. Limits without a unit compare with other work in the same process: a peer, plain
numpy, an exponent of growth, or the share of time in which the interpreter's lock is held while two threads work (of
which threads.py tells more). Cases whose peer is not installed are left out. With ``--rows`` large tables get that many
rows. Unix only.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import threads
from rows import Report, parser, seconds, shipped

import hybridbn as hb
from hybridbn import structures
from structures import make_mixed

COLUMNS = 20


class Case(NamedTuple):
    """What is measured, "s", "MiB" of the process, "x", or "s, MiB", and the limits in these units."""

    measure: Callable[[int], tuple[float, ...]]
    units: str
    limits: tuple[float, ...]


def measure_memory() -> float:
    """Return the peak of the resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 2**20


def time_work(prepare: Callable[[], Callable[[], Any]], repeats: int = 1) -> tuple[float, float]:
    """Return the least seconds of a piece of work, and the memory of the process after it."""
    return seconds(prepare(), repeats)[0], measure_memory()


def time_process(*arguments: str) -> float:
    """Return the least CPU-seconds of a whole process."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def first_posterior(rows: int) -> tuple[float, ...]:
    network = hb.read_network(shipped("asia"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "asia.hbn")
        network.save(path)
        ours = time_process("-c", f"import hybridbn as hb; hb.load({str(path)!r}).posterior('dysp', {{'asia': 'yes'}})")
    return (ours / time_process("-c", "import numpy, networkx"),)


def command(rows: int, verb: str) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as folder:
        if verb == "convert":
            return (time_process("-m", "hybridbn", verb, str(shipped("asia")), str(Path(folder, "asia.xdsl"))),)
        frame = make_mixed(100).to_pandas()
        frame.mask(np.random.default_rng(0).random(frame.shape) < 0.1).to_csv(Path(folder, "in.csv"), index=False)
        return (time_process("-m", "hybridbn", verb, str(Path(folder, "in.csv")), str(Path(folder, "out.csv"))),)


def all_marginals(rows: int) -> tuple[float, ...]:
    network = hb.read_network(shipped("munin1"))
    return time_work(lambda: network.posteriors)


def write_parquet(path: Path, names: list[str], rows: int, text: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, states = np.random.default_rng(0), pa.array(list("abcde"))
    schema = pa.schema([(name, pa.dictionary(pa.int32(), pa.string()) if text else pa.int8()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, 250_000):
            codes = rng.integers(0, 5, (len(names), min(250_000, rows - start)), dtype=np.int8)
            columns = [pa.DictionaryArray.from_arrays(pa.array(c.astype(np.int32)), states) for c in codes]
            writer.write_table(pa.table(columns if text else [pa.array(c) for c in codes], schema))


def count_parquet(rows: int, text: bool) -> tuple[float, ...]:
    names = ["y", *(f"x{j:02}" for j in range(COLUMNS))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        # in a process of its own, which keeps the memory that it takes
        writer = multiprocessing.get_context("fork").Process(target=write_parquet, args=(path, names, rows, text))
        writer.start()
        writer.join()
        return time_work(lambda: lambda: structures.naive_bayes(hb.scan(path, discrete=() if text else names), "y"))


def make_holes(rows: int) -> Any:
    """Twenty numbers and categories that depend on three factors, 10 % of the cells missing."""
    import pandas as pd

    first, second = (make_mixed(rows).to_pandas() for _ in range(2))
    frame = pd.concat([first, second.sample(frac=1, random_state=0).reset_index(drop=True).add_suffix("'")], axis=1)
    return frame.iloc[:, :20].mask(np.random.default_rng(0).random((rows, 20)) < 0.1)


def impute(rows: int, size: int, **options: Any) -> tuple[float, ...]:
    frame = make_holes(min(size, rows))
    hb.impute(frame[:200], random_state=0)
    return time_work(lambda: partial(hb.impute, frame, random_state=0, **options))


def build(rows: int, name: str, table: Callable[[], hb.Table], warm: bool = True, **options: Any) -> tuple[float, ...]:
    """Build a network; imports are timed, too, where the memory of a small table's network would be in the way."""
    data, builder = table(), getattr(structures, name)
    if warm:
        builder(data.take(np.arange(200)), **options)
    return time_work(lambda: partial(builder, data, **options))


def memory_of_tables(rows: int, name: str) -> tuple[float, ...]:
    """Return the memory that a learner takes beside a table of numbers, in units of the table."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100_000, 3)) @ rng.normal(size=(3, 11)) + rng.normal(size=(100_000, 11))
    table = hb.Table({f"x{i}": values[:, i].copy() for i in range(11)})
    getattr(structures, name)(table.take(np.arange(500)), "x10")
    before = measure_memory()
    getattr(structures, name)(table, "x10")
    return ((measure_memory() - before) * 2**20 / values.nbytes,)


def make_chain(rows: int, categories: int) -> hb.Table:
    """Twelve columns, each a noisy copy of the one before it, some of them in three states."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 12))
    for column in range(1, 12):
        values[:, column] += 0.7 * values[:, column - 1]
    data: dict[str, Any] = {f"x{i}": values[:, i] for i in range(12)}
    for i in range(categories):
        own = values[:, (5 * i) % 12]
        data[f"x{(5 * i) % 12}"] = np.array(list("abc"))[np.digitize(own, np.quantile(own, [0.3, 0.7]))]
    return hb.Table(data)


def make_codes(rows: int, columns: int, states: int) -> hb.Table:
    """Independent columns of short integers, the first of two states."""
    rng = np.random.default_rng(0)
    data = {f"k{i}": rng.integers(states if i else 2, size=rows, dtype=np.int16) for i in range(columns)}
    return hb.Table(data, discrete=list(data))


def growth(rows: int, kind: str) -> tuple[float, ...]:
    """Return the exponent of the time of a cold posterior between 1,000 and 10,000 nodes."""
    spent = []
    for size in (1000, 10_000):
        rng = np.random.default_rng(0)
        nodes = [hb.Discrete(f"v{i}", states=("a", "b")) for i in range(size)]
        above: list[list[int]] = (
            [[0]] * size if kind == "naive" else [[max(i - 1 - int(rng.integers(3)), 0)] for i in range(size)]
        )
        tables = [rng.dirichlet(np.ones(2), size=2) for _ in nodes]
        potentials = [hb.Multinomial(nodes[0], table=[0.4, 0.6])]
        potentials += [hb.Multinomial(nodes[i], [nodes[above[i][0]]], table=tables[i]) for i in range(1, size)]
        network = hb.Network(potentials)
        network.posterior("v1", {"v2": "a"})
        spent.append(seconds(lambda network=network: network.posteriors({"v5": "a"}))[0])
    return (math.log10(spent[1] / spent[0]),)


def sample_given(rows: int) -> tuple[float, ...]:
    network = hb.read_network(shipped("hailfinder"))
    leaf = next(node for node in network if network.out_degree(node) == 0)
    evidence = {leaf: network.variable(leaf).states[0]}  # type: ignore[union-attr]
    network.sample(10, random_state=0)
    return (time_work(lambda: partial(network.sample, 20_000, random_state=0, evidence=evidence))[0],)


def sample_density(rows: int) -> tuple[float, ...]:
    from inference import density_chain

    network = density_chain(5, 1)
    network.sample(10, random_state=0)
    return (time_work(lambda: partial(network.sample, 10_000, random_state=0))[0],)


def log_density_of_text(rows: int) -> tuple[float, ...]:
    """Return the time in units of that of looking up the table of each node, from codes, in numpy."""
    network = hb.read_network(shipped("alarm"))
    frame = network.sample(200_000, random_state=0).astype("object")
    network.log_density(frame[:10])
    codes = {name: np.asarray(network.variable(name).codes(frame[name])) for name in network}  # type: ignore[union-attr]

    def look_up() -> np.ndarray:
        total = np.zeros(len(frame))
        for name in network:
            potential: Any = network.potential(name)
            total += np.log(potential.table)[tuple(codes[own] for own in potential.scope)]
        return total

    ours, logs = seconds(lambda: network.log_density(frame), 3)
    least, expected = seconds(look_up, 3)
    assert np.abs(logs - expected).max() < 1e-9
    return (ours / least,)


def classify(rows: int, work: str) -> tuple[float, ...]:
    from sklearn.naive_bayes import CategoricalNB

    from hybridbn.estimators import HybridClassifier

    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1000)
    x = (rng.integers(0, 5, (1000, COLUMNS)) + y[:, None] * (rng.random((1000, COLUMNS)) < 0.4)) % 5
    ours, theirs = HybridClassifier(structures.naive_bayes, discrete=[f"x{i}" for i in range(COLUMNS)]), CategoricalNB()
    jobs = {"fit": lambda model: model.fit(x, y), "predict": lambda model: model.predict_proba(x)}
    models = [ours.fit(x, y), theirs.fit(x, y)]
    return (seconds(lambda: jobs[work](models[0]), 50)[0] / seconds(lambda: jobs[work](models[1]), 50)[0],)


def hold_lock(rows: int, work: str) -> tuple[float, ...]:
    """Return the share of time in which a thread holds the interpreter's lock while two threads work."""
    job = threads.CASES[work]()
    job(2)
    return (threads.share_of_lock(partial(job, 2)),)


CASES: dict[str, Case] = {
    "first posterior, beside numpy and networkx": Case(first_posterior, "x", (1.3,)),
    "hybridbn impute, 100 rows": Case(partial(command, verb="impute"), "s", (1.8,)),
    "hybridbn convert": Case(partial(command, verb="convert"), "s", (0.6,)),
    "all marginals of munin1": Case(all_marginals, "s, MiB", (2.0, 300.0)),
    "naive Bayes from Parquet, 1e7 x 20 codes": Case(partial(count_parquet, text=False), "s, MiB", (2.0, 300.0)),
    "naive Bayes from Parquet, 1e7 x 20 texts": Case(partial(count_parquet, text=True), "s, MiB", (2.0, 300.0)),
    "impute 1e4 x 20, 10 % missing": Case(partial(impute, size=10_000), "s", (3.0,)),
    "impute 1e5 x 20, 10 % missing": Case(partial(impute, size=100_000), "s", (24.0,)),
    "impute 1e4 x 20, five draws": Case(partial(impute, size=10_000, draws=5), "s", (6.0,)),
    "impute 1e4 x 20, means": Case(partial(impute, size=10_000, strategy="mean"), "s, MiB", (2.0, 300.0)),
    "automatic, a number, 1e4 x 10": Case(
        partial(
            build,
            name="automatic",
            table=lambda: make_mixed(10_000).select([f"x{i}" for i in range(6)] + ["k0", "k1", "k2", "y"]),
            target="y",
        ),
        "s",
        (5.0,),
    ),
    "model_tree, 1e5 x 11, beside its table": Case(partial(memory_of_tables, name="model_tree"), "x", (6.0,)),
    "regression, 1e5 x 11, beside its table": Case(partial(memory_of_tables, name="regression"), "x", (3.0,)),
    "mixture, 1e4 x 10 numbers": Case(
        partial(build, name="mixture", table=lambda: make_chain(10_000, 0).select([f"x{i}" for i in range(10)])),
        "s",
        (1.0,),
    ),
    "hill_climb, 1e4 x 12, one category": Case(
        partial(build, name="hill_climb", table=lambda: make_chain(10_000, 1), potentials="gaussian"), "s", (0.7,)
    ),
    "hill_climb, 1e4 x 12, four categories": Case(
        partial(build, name="hill_climb", table=lambda: make_chain(10_000, 4), potentials="gaussian"), "s", (0.7,)
    ),
    "tan of mixtures, 1e3 x 12": Case(
        partial(build, name="tan", table=lambda: make_chain(1000, 1), target="x0", potentials="mte"), "s", (0.3,)
    ),
    "tan, 400 columns of 5 states": Case(
        partial(build, name="tan", table=lambda: make_codes(2000, 400, 5), warm=False, target="k0"),
        "s, MiB",
        (5.0, 200.0),
    ),
    "tan, 10 columns of 1,000 states": Case(
        partial(build, name="tan", table=lambda: make_codes(10_000, 10, 1000), warm=False, target="k0"),
        "s, MiB",
        (1.0, 300.0),
    ),
    "nb_tree, 10 columns of 1,000 states": Case(
        partial(build, name="nb_tree", table=lambda: make_codes(10_000, 10, 1000), warm=False, target="k0"),
        "s, MiB",
        (1.0, 300.0),
    ),
    "all posteriors of naive networks, exponent": Case(partial(growth, kind="naive"), "x", (1.3,)),
    "all posteriors of random trees, exponent": Case(partial(growth, kind="tree"), "x", (1.3,)),
    "sample given evidence, hailfinder, 2e4": Case(sample_given, "s", (0.2,)),
    "sample, five densities, 1e4": Case(sample_density, "s", (0.3,)),
    "log_density of text, 2e5, beside lookups": Case(log_density_of_text, "x", (4.0,)),
    "classifier, 1e3 rows, fit, beside a peer": Case(partial(classify, work="fit"), "x", (1.0,)),
    "classifier, 1e3 rows, predict, beside a peer": Case(partial(classify, work="predict"), "x", (1.0,)),
    **{f"lock held, {work}": Case(partial(hold_lock, work=work), "x", (threads.LIMIT,)) for work in threads.CASES},
}


def bench(report: Report, name: str, rows: int) -> None:
    arguments = [sys.executable, __file__, "--case", name, "--rows", str(rows)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    start = time.perf_counter()
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        error = (done.stderr.strip().splitlines() or [f"ended by {done.returncode}"])[-1]
        return print(f"{name:<46} {error:.70}", flush=True)
    figures, case = json.loads(done.stdout.splitlines()[-1]), CASES[name]
    for figure, unit, limit in zip(figures, case.units.split(", "), case.limits, strict=False):
        label = f"{name}, memory" if unit == "MiB" else name
        report.add(label, figure, bound=limit, unit=unit)
        verdict = "" if figure <= limit else "  ABOVE THE LIMIT"
        print(f"{label:<54}{figure:>10.3g}{limit:>9.3g} {unit:<4}{figure / limit:>7.2f}{verdict}", flush=True)
    return print(end="" if time.perf_counter() - start < 60 else "(over a minute)\n")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("cases", nargs="*", metavar="CASE", help="words of the names of cases")
    options_parser.add_argument("--rows", type=int, default=10_000_000, help="of large tables")
    options_parser.add_argument("--case", choices=CASES, help="do a case in this process")
    options = options_parser.parse_args()
    if options.case:
        warnings.simplefilter("ignore")
        return print(json.dumps(CASES[options.case].measure(options.rows)))
    print(f"{'work':<54}{'figure':>10}{'limit':>9} {'unit':<4}{'factor':>7}")
    with Report(options) as report:
        for name in CASES:
            if not options.cases or any(word in name for word in options.cases):
                report.run(bench, name, 1_000_000 if report.ours else options.rows)
    return None


if __name__ == "__main__":
    main()
