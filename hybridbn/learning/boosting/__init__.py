"""Boosting: ensembles of Bayesian networks that vote on a class, learned by AdaBoost."""

from hybridbn.learning.boosting.adaboost import boost
from hybridbn.learning.boosting.rounds import Round

__all__ = ["Round", "boost"]
