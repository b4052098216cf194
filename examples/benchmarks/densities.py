"""Held-out log densities per row of mixtures and searched networks, beside scikit-learn's and PyBNesian's.

All methods see the same standardized rows, in threefold cross-validation:

    python examples/benchmarks/densities.py [--data FOLDER] [--names iris wine ...] [--rows 1000] [--methods ...]
    python examples/benchmarks/densities.py --data FOLDER --names heart-c pbcc --mixed

The columns are numbers with more than 15 values and without heavy points, which have probabilities in hybridbn and
could not be compared with densities; with ``--mixed`` also categories of at most 12 states, and TAN has the last of
them for its target. Names are datasets of scikit-learn, or ARFF files in the folder. Only rows count that no method
excludes, as tables of PyBNesian exclude what they have not seen; the number that each of them excludes is printed.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn import datasets
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

import hybridbn as hb
from hybridbn.fitting import find_heavy_points
from hybridbn.structures import CrossValidation, hill_climb, mixture, tan

OWN = {"iris": datasets.load_iris, "wine": datasets.load_wine, "cancer": datasets.load_breast_cancer}
FOLDS = 3
MOST_COMPONENTS = 10
MOST_STATES = 12


def fit_best_mixture(train):
    """Return scikit-learn's mixture with full covariances and the number of components of the best BIC."""
    fits = [GaussianMixture(count, random_state=0).fit(train) for count in range(1, MOST_COMPONENTS + 1)]
    return min(fits, key=lambda fit: fit.bic(train.to_numpy()))


def score_with_mixture(train, test):
    """Return scikit-learn's log densities of a mixture."""
    return fit_best_mixture(train).score_samples(test)


def score_with_kernels(train, test):
    """Return the log densities of joint kernels, their bandwidth found by cross-validation."""
    search = GridSearchCV(KernelDensity(), {"bandwidth": np.geomspace(0.05, 1.5, 15)}).fit(train.to_numpy())
    return search.best_estimator_.score_samples(test.to_numpy())


def score_with_pybnesian(kind, options, train, test):
    """Return the log densities of a network of PyBNesian."""
    import pybnesian

    train, test = encode_states(train), encode_states(test)
    network = pybnesian.hc(train, bn_type=getattr(pybnesian, kind)(), seed=0, **options)
    network.fit(train)
    return network.logl(test)


def encode_states(table):
    """Return the columns as PyBNesian takes them, with the states of all rows."""
    columns = []
    for name in table:
        column = table[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            states = pa.array(column.cat.categories.astype(str).tolist(), pa.string())
            columns.append(pa.DictionaryArray.from_arrays(pa.array(column.cat.codes, pa.int8()), states))
        else:
            columns.append(pa.array(column))
    return pa.RecordBatch.from_arrays(columns, names=list(table))


def score_with_network(build, train, test):
    """Return the log densities of a network."""
    return build(train).log_density(test)


def build_tan(potentials, train):
    """Return a TAN whose target is the last category."""
    return tan(train, list_categories(train)[-1], potentials)


def list_categories(table):
    """Return the names of the categories."""
    return [name for name in table if isinstance(table[name].dtype, pd.CategoricalDtype)]


SEARCH = partial(hill_climb, score=CrossValidation(5), restarts=0, turns=0, tabu=0)
SEMIPARAMETRIC = {"score": "validated-lik", "operators": ["arcs", "node_type"], "patience": 5}
NETWORKS = {
    "mixture": mixture,
    "semiparametric": partial(SEARCH, potentials="semiparametric"),
    "gaussian": partial(hill_climb, potentials="gaussian"),
    "mte": hill_climb,
}
PYBNESIAN = {"pybnesian": partial(score_with_pybnesian, "SemiparametricBNType", SEMIPARAMETRIC)}
NUMBERS = {
    **{name: partial(score_with_network, build) for name, build in NETWORKS.items()},
    "diagonal mixture": partial(score_with_network, partial(mixture, covariance="diagonal")),
    "sklearn full": score_with_mixture,
    "kernels": score_with_kernels,
    **PYBNESIAN,
}
MIXED = {
    **{name: partial(score_with_network, build) for name, build in NETWORKS.items()},
    "tan gaussian": partial(score_with_network, partial(build_tan, "gaussian")),
    "tan mte": partial(score_with_network, partial(build_tan, "mte")),
    **PYBNESIAN,
    "pybnesian clg": partial(score_with_pybnesian, "CLGNetworkType", {"score": "bic", "operators": ["arcs"]}),
}


def read_columns(name, folder, rows, mixed):
    """Return standardized columns of numbers, and categories if wanted, in random order, at most so many rows."""
    if name in OWN:
        numbers, categories = pd.DataFrame(OWN[name]().data), {}
        if mixed:
            categories = {"c0": pd.Series(OWN[name]().target)}
    else:
        table = hb.read_table(Path(folder) / f"{name}.arff")
        numbers = pd.DataFrame({n: table.column(n) for n in table.names if not table.is_discrete(n)}, dtype=float)
        discrete = [n for n in table.names if table.is_discrete(n) and len(table.variable(n)) <= MOST_STATES]
        categories = {n: table.to_pandas()[n] for n in discrete} if mixed else {}
    frame = pd.concat([numbers, pd.DataFrame(categories)], axis=1).dropna()
    frame = frame.iloc[np.random.default_rng(0).permutation(len(frame))[:rows]].reset_index(drop=True)
    result = {}
    for number, column in enumerate(numbers):
        values = frame[column].to_numpy(float)
        if len(np.unique(values)) > 15 and not find_heavy_points(values):
            result[f"v{number}"] = (values - values.mean()) / values.std()
    for number, column in enumerate(categories):
        states = frame[column].astype(str).astype(object)
        if states.nunique() > 1:
            result[f"c{number}"] = pd.Categorical(states)
    return pd.DataFrame(result)


def compare(name, table, methods):
    """Print the mean log density of held-out rows and the CPU-seconds of each method."""
    parts = np.arange(len(table)) % FOLDS
    logs, seconds = {}, {}
    for method, score in methods.items():
        start, own = time.process_time(), np.empty(len(table))
        try:
            for part in range(FOLDS):
                train = table[parts != part].reset_index(drop=True)
                test = table[parts == part].reset_index(drop=True)
                own[parts == part] = score(train, test)
        except (ImportError, RuntimeError, ValueError) as reason:
            print(f"{name:12} {method:18} left out: {str(reason)[:60]}")
            continue
        logs[method], seconds[method] = own, time.process_time() - start
    possible = np.all([np.isfinite(own) for own in logs.values()], axis=0)
    shape = f"{possible.sum()} x {table.shape[1]}"
    for method, own in logs.items():
        excluded = int((~np.isfinite(own)).sum())
        note = f"  excludes {excluded}" if excluded else ""
        print(
            f"{name:12} {shape:>10} {method:18} {own[possible].mean():9.3f} {seconds[method]:8.1f} s{note}", flush=True
        )


def main():
    """Compare the methods on each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=".", help="a folder of ARFF files")
    parser.add_argument("--names", nargs="+", default=list(OWN))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--mixed", action="store_true", help="categories, too")
    parser.add_argument("--methods", nargs="+", choices=sorted({*NUMBERS, *MIXED}))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = MIXED if options.mixed else NUMBERS
    wanted = {method: score for method, score in methods.items() if method in (options.methods or methods)}
    for name in options.names:
        compare(name, read_columns(name, options.data, options.rows, options.mixed), wanted)


if __name__ == "__main__":
    main()
