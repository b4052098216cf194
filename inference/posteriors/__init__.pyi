# The kinds of posteriors and where they live: read by editors and type checkers, and by `__init__.py` when a name is
# asked for.

from hybridbn.inference.posteriors.base import DiscretePosterior as DiscretePosterior
from hybridbn.inference.posteriors.base import Posterior as Posterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior as ContinuousPosterior
from hybridbn.inference.posteriors.continuous import Trace as Trace
from hybridbn.inference.posteriors.joint import JointPosterior as JointPosterior
from hybridbn.inference.posteriors.mixtures import GaussianPosterior as GaussianPosterior
