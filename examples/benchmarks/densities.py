"""Held-out log densities per row of mixtures and searched networks, beside scikit-learn's and PyBNesian's.

All methods see the same standardized rows, in threefold cross-validation:

    python examples/benchmarks/densities.py [--data FOLDER] [--names iris wine ...] [--rows 1000] [--methods ...]

The columns are numbers with more than 15 values and without heavy points, which have probabilities in hybridbn and
could not be compared with densities. Names are datasets of scikit-learn, or ARFF files in the folder. PyBNesian
computes its kernels by OpenCL and is left out where there is no device.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

import hybridbn as hb
from hybridbn.fitting import find_heavy_points
from hybridbn.structures import CrossValidation, hill_climb, mixture

OWN = {"iris": datasets.load_iris, "wine": datasets.load_wine, "cancer": datasets.load_breast_cancer}
FOLDS = 3
MOST_COMPONENTS = 10


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


def score_with_pybnesian(train, test):
    """Return the log densities of a semiparametric network of PyBNesian."""
    import pybnesian

    options = {"score": "validated-lik", "operators": ["arcs", "node_type"], "patience": 5, "seed": 0}
    network = pybnesian.hc(train, bn_type=pybnesian.SemiparametricBNType(), **options)
    network.fit(train)
    return network.logl(test)


def score_with_network(build, train, test):
    """Return the log densities of a network."""
    return build(train).log_density(test)


SEARCH = partial(hill_climb, score=CrossValidation(5), restarts=0, turns=0, tabu=0)
METHODS = {
    "mixture": partial(score_with_network, mixture),
    "diagonal mixture": partial(score_with_network, partial(mixture, covariance="diagonal")),
    "semiparametric": partial(score_with_network, partial(SEARCH, potentials="semiparametric")),
    "gaussian": partial(score_with_network, partial(hill_climb, potentials="gaussian")),
    "mte": partial(score_with_network, hill_climb),
    "sklearn full": score_with_mixture,
    "kernels": score_with_kernels,
    "pybnesian": score_with_pybnesian,
}


def read_numbers(name, folder, rows):
    """Return standardized columns of numbers, in random order, at most so many rows."""
    if name in OWN:
        values = OWN[name]().data
    else:
        table = hb.read_table(Path(folder) / f"{name}.arff")
        values = np.column_stack([table.column(n) for n in table.names if not table.is_discrete(n)]).astype(float)
    values = values[~np.isnan(values).any(axis=1)]
    kept = [len(np.unique(column)) > 15 and not find_heavy_points(column) for column in values.T]
    values = values[np.random.default_rng(0).permutation(len(values))[:rows]][:, kept]
    standard = (values - values.mean(axis=0)) / values.std(axis=0)
    return pd.DataFrame(standard, columns=[f"v{number}" for number in range(standard.shape[1])])


def compare(name, table, methods):
    """Print the mean log density of held-out rows and the CPU-seconds of each method."""
    parts = np.arange(len(table)) % FOLDS
    for method in methods:
        total, start = 0.0, time.process_time()
        try:
            for part in range(FOLDS):
                train = table[parts != part].reset_index(drop=True)
                test = table[parts == part].reset_index(drop=True)
                total += float(np.sum(METHODS[method](train, test)))
        except (ImportError, RuntimeError) as reason:
            print(f"{name:12} {method:18} left out: {str(reason)[:60]}")
            continue
        shape = f"{len(table)} x {table.shape[1]}"
        seconds = time.process_time() - start
        print(f"{name:12} {shape:>10} {method:18} {total / len(table):9.3f} {seconds:8.1f} s", flush=True)


def main():
    """Compare the methods on each dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=".", help="a folder of ARFF files")
    parser.add_argument("--names", nargs="+", default=list(OWN))
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.names:
        compare(name, read_numbers(name, options.data, options.rows), options.methods)


if __name__ == "__main__":
    main()
