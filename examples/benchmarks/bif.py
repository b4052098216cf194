"""Time the BIF readers of hybridbn, pyAgrum and pgmpy on the networks that pgmpy ships, in one process, and compare
what they read.

    python examples/benchmarks/bif.py [name ...] [--repeat 3]

Each reader starts from the same unpacked file and ends with a network of its own that can be queried. The least time of
the repetitions is printed, in CPU time (pgmpy, which takes seconds, runs once), and two ratios: hybridbn's time over
pyAgrum's and over pgmpy's.
"""

from __future__ import annotations

import gzip
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rows import Report, parser, seconds, shipped

import hybridbn as hb


def load_with_pyagrum(path: Path) -> Any:
    """Return None where pyAgrum's grammar doesn't reach (states like Asy/Patch in child)."""
    import pyagrum

    try:
        return pyagrum.loadBN(str(path))
    except pyagrum.FatalError:
        return None


def difference_from_pgmpy(net: hb.Network, model: Any) -> float:
    """Return the largest difference of any two probabilities; states and parents have to agree."""
    worst = 0.0
    for cpd in model.get_cpds():
        potential = net.potential(cpd.variable)
        assert cpd.variables[1:] == [parent.name for parent in potential.parents]
        assert tuple(cpd.state_names[cpd.variable]) == potential.child.states
        worst = max(worst, np.abs(np.moveaxis(cpd.values, 0, -1) - potential.table).max())
    return worst


def difference_from_pyagrum(net: hb.Network, model: Any) -> float:
    """Return the largest difference of any two probabilities (pyAgrum keeps float32 digits)."""
    worst = 0.0
    for name in net:
        potential, table = net.potential(name), model.cpt(name)
        assert list(table.names) == [name, *(parent.name for parent in potential.parents)]
        backwards = [*reversed(range(len(potential.parents))), len(potential.parents)]
        worst = max(worst, np.abs(table.toarray() - potential.table.transpose(backwards)).max())
    return worst


def bench(report: Report, path: Path, repeat: int) -> None:
    name = path.stem
    ours, net = seconds(partial(hb.read_network, path, normalize=False), repeat, at_least=0.1)
    count = sum(net.potential(node).table.size for node in net)
    print(f"{name:<12}{len(net):>6}{count:>9} |{ours * 1e3:>10.1f}", end="", flush=True)
    if report.ours:
        print()
        return report.add(name, ours)
    import pyagrum  # noqa: F401  # before the clock runs
    from pgmpy.readwrite import BIFReader

    agrum, agrum_net = seconds(partial(load_with_pyagrum, path), repeat)
    slow, model = seconds(lambda: BIFReader(str(path)).get_model())
    known = agrum_net is not None
    apart = difference_from_pgmpy(net, model)
    print(f"{agrum * 1e3:>10.1f}" if known else f"{'-':>10}", end="")
    print(f"{slow * 1e3:>10.1f}    |", f"{ours / agrum:>8.2f}" if known else f"{'-':>8}", end="")
    print(f"{ours / slow:>8.3f} | ", end="")
    print(f"{difference_from_pyagrum(net, agrum_net):.1e}" if known else "can't read it", end=", ")
    print(f"{apart:.1e}", flush=True)
    return report.add(name, ours, agrum if known else slow, difference=apart)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("names", nargs="*", help="networks (all by default)")
    options_parser.add_argument("--repeat", type=int, default=3)
    options = options_parser.parse_args()
    names = options.names or sorted(path.name.removesuffix(".bif.gz") for path in shipped("*").parent.glob("*.bif.gz"))
    print(f"{'network':<12}{'nodes':>6}{'numbers':>9} |{'hybridbn':>10}{'pyAgrum':>10}{'pgmpy':>10} ms |", end="")
    print(f"{'/pyAgrum':>9}{'/pgmpy':>8} | differences from pyAgrum, pgmpy")
    with Report(options) as report, tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, f"{name}.bif")
            path.write_bytes(gzip.decompress(shipped(name).read_bytes()))
            report.run(bench, path, options.repeat)


if __name__ == "__main__":
    main()
