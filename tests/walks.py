"""Which functions of the library run in some calls; each is traced in a process of its own: python tests/walks.py WHAT.

Functions are counted with their lambdas, comprehensions with the function that they are in, and bodies of classes not
at all. Before a call is traced the same call was made once with other data, so that all that is imported and compiled
once is left out.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from house import FOLDERS, OF_TABLES, ROOT
from narrowing import as_discrete

WITHIN = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"}
Function = tuple[str, str, int]
"""The path from the root of the checkout, the qualified name, and the line."""


def run_apart(what: str, root: Path = ROOT, interpreter: str = sys.executable) -> Any:
    """Return what this script prints of the library in a checkout."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, __file__, what, str(root)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the calls of {root} can't be traced: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def trace(call: Callable[[], object], root: Path) -> set[Function]:
    """Return the functions of a checkout's library that a call runs."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    gc.collect()  # what ends with objects of earlier calls is none of this one
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return set(_list_functions(codes, root))


def _list_functions(codes: set[CodeType], root: Path) -> Iterator[Function]:
    for code in codes:
        path = Path(code.co_filename)
        is_function = code.co_flags & inspect.CO_NEWLOCALS  # the body of a class is none
        if is_function and code.co_name not in WITHIN and path.is_absolute():
            path = path.resolve()
            if path.is_relative_to(root) and path.relative_to(root).parts[0] in FOLDERS:
                yield path.relative_to(root).as_posix(), code.co_qualname, code.co_firstlineno


def make_frame(seed: int, rows: int = 200, holes: float = 0.0) -> Any:
    """Return a frame of two columns of states and three of numbers."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    classes = rng.choice(["a", "b"], rows)
    columns = {"c": classes, "k": rng.choice(["u", "v", "w"], rows)}
    columns |= {f"x{i}": rng.normal(size=rows) + (classes == "a") for i in range(3)}
    frame = pd.DataFrame(columns)
    return frame.mask(rng.random(frame.shape) < holes) if holes else frame


def prepare_walks(seed: int) -> dict[str, Callable[[], object]]:
    """Return the calls whose functions are counted, with data of their own."""
    import hybridbn as hb
    from hybridbn.commands.cli import run

    frame, incomplete = make_frame(seed), make_frame(seed, holes=0.1)
    incomplete.to_csv(f"a{seed}.csv", index=False)
    network = hb.structures.naive_bayes(frame, "c", potentials="mte")
    evidence = incomplete.drop(columns="c")

    def impute_file() -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            assert run(["impute", f"a{seed}.csv", f"b{seed}.csv"]) == 0

    return {
        "net.posterior": lambda: network.posterior("c", evidence),
        "naive_bayes(frame)": lambda: hb.structures.naive_bayes(frame, "c"),
        "hb.impute(frame)": lambda: hb.impute(incomplete, random_state=0),
        "hybridbn impute a.csv b.csv": impute_file,
    }


def count_walks(root: Path) -> dict[str, tuple[int, int]]:
    """Return how many functions and modules run in each of the calls."""
    for call in prepare_walks(1).values():
        call()
    walks = {name: trace(call, root) for name, call in prepare_walks(2).items()}
    return {name: (len(functions), len({path for path, *_ in functions})) for name, functions in walks.items()}


def name_walks(walks: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Return the figures of traced calls by name."""
    return {
        f"{name}: {unit}": count
        for name, counts in walks.items()
        for unit, count in zip(("functions", "modules"), counts, strict=True)
    }


def read_all(completed: Any) -> None:
    """Read what was imputed in a scan, which is done when it is read."""
    for _ in getattr(completed, "batches", list)():
        pass


def list_doors(incomplete: bool) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Return calls that learn from a table, whichever kind of rows it has: all builders, and what builds on them."""
    import hybridbn as hb
    from hybridbn.structures.building import BUILDERS, declaration_of

    for name, build in sorted(BUILDERS.items()):
        takes_target = declaration_of(build).takes_target
        kinds = {True: ("c", "x0"), False: (), hb.Discrete: ("c",), hb.Continuous: ("x0",)}[takes_target]
        for arguments in [(target,) for target in kinds] or [()]:
            yield " ".join((name, *arguments)), lambda rows, build=build, arguments=arguments: build(rows, *arguments)
    for potentials in ("auto", "mte", "kernel", "gaussian", "multinomial"):
        yield (
            f"fit {potentials}",
            lambda rows, potentials=potentials: hb.fit([("c", "k"), ("c", "x0"), ("x0", "x1")], rows, potentials),
        )
    yield "boost m1", lambda rows: hb.boost(rows, "c", rounds=5, random_state=0)
    yield "boost real", lambda rows: hb.boost(rows, "c", rounds=5, algorithm="real", random_state=0)
    yield "boost tan", lambda rows: hb.boost(rows, "c", build=hb.structures.tan, rounds=3, random_state=0)
    yield "augment", lambda rows: hb.augment(rows, "c", random_state=0)
    yield "HybridClassifier", lambda rows: hb.HybridClassifier(hb.structures.tan).fit(rows, "c")
    yield "HybridRegressor", lambda rows: hb.HybridRegressor(hb.structures.regression).fit(rows, "x0")
    network = hb.structures.naive_bayes(make_frame(5), "c")
    yield "posterior of states", lambda rows: list(as_discrete(network.posterior("c", rows)).probabilities)
    yield "posterior of a number", lambda rows: list(network.posterior("x0", rows).mean())
    if incomplete:
        for strategy in ("draw", "mean", "most_probable"):
            yield (
                f"impute {strategy}",
                lambda rows, strategy=strategy: read_all(hb.impute(rows, strategy=strategy, random_state=0)),
            )


def compare_kinds_of_rows(root: Path) -> dict[str, Any]:
    """Return the functions outside of tables that run for a table in memory, those for a scan of it, and refusals."""
    import hybridbn as hb

    functions: dict[str, set[Function]] = {"memory": set(), "scan": set()}
    refused: dict[str, str] = {}
    read = {"memory": hb.Table, "scan": hb.scan}
    for holes in (0.0, 0.1):
        warm, *frames = (make_frame(seed, 300, holes) for seed in (2, 3, 4))
        for name, learn in list_doors(bool(holes)):
            for kind in read:
                with contextlib.suppress(Exception):  # which is told below
                    learn(read[kind](warm))
            ran: dict[str, set[Function]] = {"memory": set(), "scan": set()}
            # each kind comes first once, as the second finds what is cached for the same data
            for frame, kind in zip((frames[0], *frames, frames[1]), ("memory", "scan", "scan", "memory"), strict=True):
                rows = read[kind](frame)
                try:
                    ran[kind] |= trace(lambda learn=learn, rows=rows: learn(rows), root)
                except Exception as error:  # of what has no answer for this kind of rows
                    refused[f"{name}, {'holes' if holes else 'complete'}, {kind}"] = f"{type(error).__name__}: {error}"
            if all(ran.values()):  # else all that runs would be for one kind only
                for kind in ran:
                    functions[kind] |= ran[kind]
    outside = {kind: {f for f in ran if not f[0].startswith(OF_TABLES)} for kind, ran in functions.items()}
    return {kind: sorted(ran) for kind, ran in outside.items()} | {"refused": refused}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    work = {"walks": count_walks, "kinds": compare_kinds_of_rows}[sys.argv[1]]
    with contextlib.redirect_stdout(sys.stderr):
        answer = work(Path(sys.argv[2]))
    print(json.dumps(answer))
