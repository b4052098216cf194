"""scikit-learn estimators: a Bayesian network as classifier, as regressor and as imputer."""

from hybridbn.estimators.predictors import HybridClassifier, HybridRegressor, Imputer

__all__ = ["HybridClassifier", "HybridRegressor", "Imputer"]
