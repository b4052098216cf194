"""The base classes of scikit-learn; the stub beside this module gives them the types that scikit-learn lacks."""

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin", "TransformerMixin"]
