"""Imputation: a Bayesian network is learned from an incomplete table, and missing cells are drawn from its posterior."""

from hybridbn.learning.imputation.impute import Imputation, impute

__all__ = ["Imputation", "impute"]
