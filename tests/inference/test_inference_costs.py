"""What answers cost: how work grows with the network, and what a process has to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from costs import assert_linear

import hybridbn as hb
from hybridbn.inference import relevance


def star(count: int) -> hb.Network:
    hub = hb.Discrete("hub", states=(0, 1))
    leaves = [hb.Discrete(f"x{i}", states=(0, 1)) for i in range(count)]
    tables = [hb.Multinomial(leaf, (hub,), table=[[0.4, 0.6], [0.7, 0.3]]) for leaf in leaves]
    return hb.Network([hb.Multinomial(hub, table=[0.3, 0.7]), *tables])


def sparse(count: int) -> hb.Network:
    rng = np.random.default_rng(0)
    nodes = [hb.Discrete(f"x{i}", states=(0, 1)) for i in range(count)]
    potentials = []
    for i, node in enumerate(nodes):
        parents = [nodes[int(rng.integers(i))]] if i and rng.random() < 0.6 else []
        potentials.append(hb.Multinomial(node, parents, table=rng.dirichlet([1, 1], [2] * len(parents))))
    return hb.Network(potentials)


@pytest.mark.parametrize("make", [star, pytest.param(sparse, marks=pytest.mark.slow)])
def test_work_grows_with_the_network(make: Any, tmp_path: Path) -> None:
    networks = {count: make(count) for count in (150, 300)}
    fresh = lambda count: hb.Network(networks[count].potentials)  # noqa: E731

    def add(count: int) -> None:
        network = hb.Network()
        for potential in networks[count].potentials:
            network.add(potential)
        network.check()

    assert_linear(add, 150)
    assert_linear(lambda count: fresh(count).save(tmp_path / "n.hbn"), 150)

    def ask(count: int, question: Any) -> None:
        relevance.CACHE.clear()
        question(networks[count])

    given = {"x7": 1, "x9": 0}
    assert_linear(lambda count: ask(count, lambda n: n.posteriors(given)), 150)
    assert_linear(lambda count: ask(count, lambda n: n.log_evidence(given)), 150)
    assert_linear(lambda count: ask(count, lambda n: n.most_probable(given)), 150)
    assert_linear(lambda count: ask(count, lambda n: n.posterior("x0", dict.fromkeys(list(n)[20::3], 1))), 150)


HEAVY = {"scipy", "pandas", "sklearn", "pyarrow", "matplotlib", "polars", "narwhals", "unittest", "asyncio"}


def list_imported(code: str, *arguments: str) -> set[str]:
    """Return the modules that a fresh process has imported after some statements."""
    code += "\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_a_first_posterior_imports_little() -> None:
    imported = list_imported("""
import hybridbn as hb
a, b = hb.Discrete("a", states=(0, 1)), hb.Discrete("b", states=(0, 1))
network = hb.Network([hb.Multinomial(a, table=[0.3, 0.7]), hb.Multinomial(b, (a,), table=[[0.1, 0.9], [0.5, 0.5]])])
network.posterior("a", {"b": 1}).probabilities
""")
    assert not imported & HEAVY
    own = {name for name in imported if name.startswith("hybridbn.")}
    assert not any(name.startswith(("hybridbn.fitting", "hybridbn.structures", "hybridbn.learning")) for name in own)
    assert not own & {
        "hybridbn.inference.compilation",
        "hybridbn.inference.solutions",
        "hybridbn.inference.grids",
    }


BIF = """network n {}
variable a { type discrete [ 2 ] { yes, no }; }
probability ( a ) { table 0.3, 0.7; }
"""


def test_conversion_imports_neither_scipy_nor_pandas(tmp_path: Path) -> None:
    (tmp_path / "n.bif").write_text(BIF)
    code = "import sys; from hybridbn.commands.cli import main\ntry: main()\nexcept SystemExit: pass"
    imported = list_imported(code, "convert", str(tmp_path / "n.bif"), str(tmp_path / "n.xdsl"))
    assert (tmp_path / "n.xdsl").exists()
    assert not imported & {"scipy", "pandas", "sklearn", "pyarrow", "unittest"}


def test_imputation_imports_no_statistics_and_no_optimizers(tmp_path: Path) -> None:
    rows = "\n".join(f"{i * 0.37 % 1:.2f},{'uv'[i % 2]},{f'{i * 0.73 % 1:.3f}' if i % 7 else ''}" for i in range(1, 60))
    (tmp_path / "t.csv").write_text("x,c,y\n" + rows)
    code = "import sys; from hybridbn.commands.cli import main\ntry: main()\nexcept SystemExit: pass"
    imported = list_imported(code, "impute", str(tmp_path / "t.csv"), str(tmp_path / "o.csv"))
    assert (tmp_path / "o.csv").exists()
    assert not imported & {"scipy.stats", "scipy.optimize", "scipy.spatial", "sklearn", "matplotlib"}
