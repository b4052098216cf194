"""Builders: functions that choose a structure for data and return a fitted `Network`.

Part of the package ``hybridbn``; import it as ``hybridbn.structures``. A builder is a function with the decorator
`builder` in a module of this package. It needs nothing else to be known by its name here, in every ``build=`` and to
the command.

Doors: `arcs`, `automatic`, `building`, `random_forest`, `training_data`.
"""

if __name__ != "hybridbn.structures":
    raise ImportError("import hybridbn.structures, not structures")

from typing import TYPE_CHECKING

from hybridbn.structures.arcs import Knowledge
from hybridbn.structures.building import BUILDERS, Declaration, builder
from hybridbn.structures.column_splits import GainRatio, Utility, Variance
from hybridbn.structures.scores import BIC, BDeu, BGe, CrossValidation, Score

if TYPE_CHECKING:
    # for editors and type checkers; at run time the names come from the registry
    from hybridbn.structures.automatic import automatic as automatic
    from hybridbn.structures.constraint_based import max_min_hill_climb as max_min_hill_climb
    from hybridbn.structures.constraint_based import pc_stable as pc_stable
    from hybridbn.structures.dependence import chow_liu as chow_liu
    from hybridbn.structures.discriminant import discriminant as discriminant
    from hybridbn.structures.discriminant import logistic as logistic
    from hybridbn.structures.hill_climb import hill_climb as hill_climb
    from hybridbn.structures.mixture import mixture as mixture
    from hybridbn.structures.model_tree import model_tree as model_tree
    from hybridbn.structures.naive_bayes import class_clusters as class_clusters
    from hybridbn.structures.naive_bayes import kdb as kdb
    from hybridbn.structures.naive_bayes import naive_bayes as naive_bayes
    from hybridbn.structures.naive_bayes import selective_naive_bayes as selective_naive_bayes
    from hybridbn.structures.naive_bayes import tan as tan
    from hybridbn.structures.nb_tree import nb_tree as nb_tree
    from hybridbn.structures.random_forest import random_forest as random_forest
    from hybridbn.structures.regression import regression as regression


# after all imports, because some modules have the same name as their builder
globals().update(BUILDERS.load())

__all__ = [
    "BIC",
    "BDeu",
    "BGe",
    "CrossValidation",
    "Declaration",
    "GainRatio",
    "Knowledge",
    "Score",
    "Utility",
    "Variance",
    "builder",
    *sorted(BUILDERS),
]
