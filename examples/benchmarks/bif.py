"""Time the BIF readers of hybridbn, pyAgrum and pgmpy on the networks that pgmpy ships, in one process, and compare what they read.

    python examples/benchmarks/bif.py [name ...] [--repeat 3]

Each reader starts from the same unpacked file and ends with a network of its own that can be queried. The least time of the
repetitions is printed (pgmpy, which takes seconds, runs once), and two ratios: hybridbn's time over pyAgrum's and over pgmpy's.
"""

import argparse
import gzip
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pgmpy
import pyagrum
from pgmpy.readwrite import BIFReader

import hybridbn as hb

NETWORKS = Path(pgmpy.__file__).parent / "utils" / "example_models"


def least_time(action, repeat):
    """Return the least time in seconds, and the result."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return min(times), result


def load_with_pyagrum(path):
    """Return None where pyAgrum's grammar doesn't reach (states like Asy/Patch in child)."""
    try:
        return pyagrum.loadBN(str(path))
    except pyagrum.FatalError:
        return None


def difference_from_pgmpy(net, model):
    """Return the largest difference of any two probabilities; states and parents have to agree."""
    worst = 0.0
    for cpd in model.get_cpds():
        potential = net.potential(cpd.variable)
        assert cpd.variables[1:] == [parent.name for parent in potential.parents]
        assert tuple(cpd.state_names[cpd.variable]) == potential.child.states
        worst = max(worst, np.abs(np.moveaxis(cpd.values, 0, -1) - potential.table).max())
    return worst


def difference_from_pyagrum(net, model):
    """Return the largest difference of any two probabilities (pyAgrum keeps float32 digits)."""
    worst = 0.0
    for name in net:
        potential, table = net.potential(name), model.cpt(name)
        assert list(table.names) == [name, *(parent.name for parent in potential.parents)]
        backwards = [*reversed(range(len(potential.parents))), len(potential.parents)]
        worst = max(worst, np.abs(table.toarray() - potential.table.transpose(backwards)).max())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="networks (all by default)")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    names = options.names or sorted(path.name.removesuffix(".bif.gz") for path in NETWORKS.glob("*.bif.gz"))
    warnings.simplefilter("ignore")  # deprecations inside pgmpy
    print(f"{'network':<12}{'nodes':>6}{'numbers':>9} |{'hybridbn':>10}{'pyAgrum':>10}{'pgmpy':>10} ms |", end="")
    print(f"{'/pyAgrum':>9}{'/pgmpy':>8} | differences from pyAgrum, pgmpy")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, f"{name}.bif")
            path.write_bytes(gzip.decompress((NETWORKS / f"{name}.bif.gz").read_bytes()))
            ours, net = least_time(lambda path=path: hb.read_network(path, normalize=False), options.repeat)
            agrum, agrum_net = least_time(lambda path=path: load_with_pyagrum(path), options.repeat)
            slow, model = least_time(lambda path=path: BIFReader(str(path)).get_model(), 1)
            count = sum(net.potential(node).table.size for node in net)
            known = agrum_net is not None
            print(f"{name:<12}{len(net):>6}{count:>9} |{ours * 1e3:>10.1f}", end="")
            print(f"{agrum * 1e3:>10.1f}" if known else f"{'-':>10}", end="")
            print(f"{slow * 1e3:>10.1f}    |", f"{ours / agrum:>8.2f}" if known else f"{'-':>8}", end="")
            print(f"{ours / slow:>8.3f} | ", end="")
            print(f"{difference_from_pyagrum(net, agrum_net):.1e}" if known else "can't read it", end=", ")
            print(f"{difference_from_pgmpy(net, model):.1e}", flush=True)


if __name__ == "__main__":
    main()
