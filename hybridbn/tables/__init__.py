"""Tables: typed columns with holes, made of the frames of any library and turned back into them.

Doors: `adapters.arrow`, `cells`, `columns`, `frames`, `row_numbers`, `rows`.
"""

from hybridbn.tables.rows import Rows
from hybridbn.tables.table import Table, read_rows, read_usable_frame

__all__ = ["Rows", "Table", "read_rows", "read_usable_frame"]
