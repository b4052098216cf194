# The public names and where they live: read by editors and type checkers, and by `__init__.py` when a name is asked
# for.

from hybridbn.potentials.atoms import Atoms as Atoms
from hybridbn.potentials.atoms import PointMass as PointMass
from hybridbn.potentials.base import Potential as Potential
from hybridbn.potentials.binned import Binned as Binned
from hybridbn.potentials.cases import Boxes as Boxes
from hybridbn.potentials.cases import Case as Case
from hybridbn.potentials.cases import Cases as Cases
from hybridbn.potentials.density import Density as Density
from hybridbn.potentials.gaussian import LinearGaussian as LinearGaussian
from hybridbn.potentials.gaussian import LinearGaussianMixture as LinearGaussianMixture
from hybridbn.potentials.kernel import Kernel as Kernel
from hybridbn.potentials.mte import MTE as MTE
from hybridbn.potentials.mte import Piece as Piece
from hybridbn.potentials.multinomial import Multinomial as Multinomial
from hybridbn.potentials.softmax import Softmax as Softmax
