from hybridbn.tables.backends.base import Backend as Backend
from hybridbn.tables.backends.base import Batch as Batch
from hybridbn.tables.backends.base import Fragment as Fragment
from hybridbn.tables.backends.base import Source as Source
from hybridbn.tables.backends.base import Task as Task
from hybridbn.tables.backends.scans import Scan as Scan
from hybridbn.tables.backends.sources import open_rows as open_rows
from hybridbn.tables.backends.sources import scan as scan
