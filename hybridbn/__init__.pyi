# The public names and where they live: read by editors and type checkers, and by `hybridbn/__init__.py` when a name
# is asked for.

from hybridbn import errors as errors
from hybridbn import estimation as estimation
from hybridbn import estimators as estimators
from hybridbn import fitting as fitting
from hybridbn import formats as formats
from hybridbn import inference as inference
from hybridbn import learning as learning
from hybridbn import potentials as potentials
from hybridbn import structures as structures
from hybridbn import tables as tables
from hybridbn import variables as variables
from hybridbn.errors import FormatError as FormatError
from hybridbn.errors import HybridBNError as HybridBNError
from hybridbn.errors import ImpossibleEvidence as ImpossibleEvidence
from hybridbn.errors import NetworkError as NetworkError
from hybridbn.errors import TableError as TableError
from hybridbn.errors import TooWide as TooWide
from hybridbn.estimators import HybridClassifier as HybridClassifier
from hybridbn.estimators import HybridRegressor as HybridRegressor
from hybridbn.estimators import Imputer as Imputer
from hybridbn.fitting import fit as fit
from hybridbn.formats.hbn import load as load
from hybridbn.formats.networks import read_network as read_network
from hybridbn.formats.networks import write_network as write_network
from hybridbn.formats.networks.pgmpy import from_pgmpy as from_pgmpy
from hybridbn.formats.tables import read_table as read_table
from hybridbn.formats.tables import write_table as write_table
from hybridbn.inference.cell_evidence import Interval as Interval
from hybridbn.learning import Augmented as Augmented
from hybridbn.learning import augment as augment
from hybridbn.learning import expectation_maximization as expectation_maximization
from hybridbn.learning import impute as impute
from hybridbn.learning import pool as pool
from hybridbn.learning import structural_em as structural_em
from hybridbn.learning.bias_variance import bias_variance as bias_variance
from hybridbn.learning.boosting import boost as boost
from hybridbn.learning.ensemble import Ensemble as Ensemble
from hybridbn.network import Network as Network
from hybridbn.options import Options as Options
from hybridbn.potentials import MTE as MTE
from hybridbn.potentials import Boxes as Boxes
from hybridbn.potentials import Cases as Cases
from hybridbn.potentials import Density as Density
from hybridbn.potentials import Kernel as Kernel
from hybridbn.potentials import LinearGaussian as LinearGaussian
from hybridbn.potentials import Multinomial as Multinomial
from hybridbn.potentials import Piece as Piece
from hybridbn.potentials import Potential as Potential
from hybridbn.potentials import Softmax as Softmax
from hybridbn.tables import Table as Table
from hybridbn.variables import Continuous as Continuous
from hybridbn.variables import Discrete as Discrete

__version__: str
