from hybridbn.backends.base import Backend as Backend
from hybridbn.backends.base import Batch as Batch
from hybridbn.backends.base import Fragment as Fragment
from hybridbn.backends.base import Source as Source
from hybridbn.backends.base import Task as Task
from hybridbn.backends.opening import scan as scan
from hybridbn.backends.scans import Scan as Scan
