# The plots and where they live: read by editors and type checkers, and by `__init__.py` when a name is asked for.

from hybridbn.pictures.learning import plot_augmentation as plot_augmentation
from hybridbn.pictures.learning import plot_boosting as plot_boosting
from hybridbn.pictures.learning import plot_calibration as plot_calibration
from hybridbn.pictures.learning import plot_nomogram as plot_nomogram
from hybridbn.pictures.learning import plot_probability_integral_transform as plot_probability_integral_transform
from hybridbn.pictures.networks import plot_network as plot_network
from hybridbn.pictures.networks import plot_strengths as plot_strengths
from hybridbn.pictures.posteriors import plot_conditional as plot_conditional
from hybridbn.pictures.posteriors import plot_effect as plot_effect
from hybridbn.pictures.posteriors import plot_explanation as plot_explanation
from hybridbn.pictures.posteriors import plot_joint as plot_joint
from hybridbn.pictures.posteriors import plot_posterior as plot_posterior
from hybridbn.pictures.posteriors import plot_sensitivity as plot_sensitivity
from hybridbn.pictures.tables import plot_imputed as plot_imputed
from hybridbn.pictures.tables import plot_missing as plot_missing
