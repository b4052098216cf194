"""Learning from tables with holes, and completing them; structures come in as callables or networks."""

from hybridbn.learning.augmentation import Augmented, augment
from hybridbn.learning.em import Learned, expectation_maximization
from hybridbn.learning.em_structure import Structured, structural_em
from hybridbn.learning.imputation import Imputation, impute
from hybridbn.learning.pooling import Pooled, pool

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
