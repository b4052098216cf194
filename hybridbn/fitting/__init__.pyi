# The public names and where they live: read by editors and type checkers, and by `__init__.py` when a name is asked
# for.

from hybridbn.estimation.em import fit as fit
from hybridbn.fitting.atoms import AtomsFitter as AtomsFitter
from hybridbn.fitting.base import Fitter as Fitter
from hybridbn.fitting.base import Observed as Observed
from hybridbn.fitting.base import Role as Role
from hybridbn.fitting.base import Statistics as Statistics
from hybridbn.fitting.base import fitter_of as fitter_of
from hybridbn.fitting.base import observed as observed
from hybridbn.fitting.base import roles as roles
from hybridbn.fitting.contingency_tables import joint_counts as joint_counts
from hybridbn.fitting.contingency_tables import pair_counts as pair_counts
from hybridbn.fitting.contingency_tables import single_counts as single_counts
from hybridbn.fitting.discretize import equal_frequency as equal_frequency
from hybridbn.fitting.discretize import equal_width as equal_width
from hybridbn.fitting.discretize import mdl as mdl
from hybridbn.fitting.gaussian import GaussianFitter as GaussianFitter
from hybridbn.fitting.gaussian import GaussianStatistics as GaussianStatistics
from hybridbn.fitting.gaussian import LinearGaussianMixtureFitter as LinearGaussianMixtureFitter
from hybridbn.fitting.kernel import KernelFitter as KernelFitter
from hybridbn.fitting.kernel import SemiparametricFitter as SemiparametricFitter
from hybridbn.fitting.mte import MTEFitter as MTEFitter
from hybridbn.fitting.multinomial import Dirichlet as Dirichlet
from hybridbn.fitting.multinomial import MaximumLikelihood as MaximumLikelihood
from hybridbn.fitting.multinomial import MEstimate as MEstimate
from hybridbn.fitting.multinomial import MultinomialFitter as MultinomialFitter
from hybridbn.fitting.multinomial import MultinomialStatistics as MultinomialStatistics
from hybridbn.fitting.softmax import SoftmaxFitter as SoftmaxFitter
from hybridbn.tables.scales import find_heavy_points as find_heavy_points
