"""scikit-learn estimators: a Bayesian network as classifier, as regressor and as imputer."""

from hybridbn.estimators.imputer import Imputer
from hybridbn.estimators.predictors import HybridClassifier, HybridRegressor

__all__ = ["HybridClassifier", "HybridRegressor", "Imputer"]
