"""Builders: functions that find a structure for data and return a fitted `Network`.

Part of the package ``hybridbn``; import it as ``hybridbn.structures``.
"""

if __name__ != "hybridbn.structures":
    raise ImportError("import hybridbn.structures, not structures")

from hybridbn.structures.automatic import automatic
from hybridbn.structures.chow_liu import chow_liu
from hybridbn.structures.clusters import class_clusters
from hybridbn.structures.hill_climb import hill_climb
from hybridbn.structures.kdb import kdb
from hybridbn.structures.mixture import mixture
from hybridbn.structures.model_tree import model_tree
from hybridbn.structures.naive_bayes import naive_bayes
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.regression import regression
from hybridbn.structures.selective import selective_naive_bayes
from hybridbn.structures.tan import tan

__all__ = [
    "automatic",
    "chow_liu",
    "class_clusters",
    "hill_climb",
    "kdb",
    "mixture",
    "model_tree",
    "naive_bayes",
    "nb_tree",
    "regression",
    "selective_naive_bayes",
    "tan",
]
