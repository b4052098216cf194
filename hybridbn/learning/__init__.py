"""Learning from tables with holes, and completing them; structures come in as callables or networks.

Doors: `augmentation`, `boosting`, `ensemble`, `imputation.data_augmentation`, `imputation.model`.
"""

from hybridbn.estimation.em import Learned, expectation_maximization
from hybridbn.learning.augmentation import Augmented, augment
from hybridbn.learning.imputation.impute import Imputation, impute
from hybridbn.learning.repeated_estimates import Pooled, pool
from hybridbn.structures.building import Structured, structural_em

__all__ = [
    "Augmented",
    "Imputation",
    "Learned",
    "Pooled",
    "Structured",
    "augment",
    "expectation_maximization",
    "impute",
    "pool",
    "structural_em",
]
