"""Imputation: learn a Bayesian network from an incomplete table and draw the missing cells from its posterior."""

from hybridbn.learning.imputation.impute import Imputation, impute

__all__ = ["Imputation", "impute"]
