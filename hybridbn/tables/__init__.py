"""Tables: typed columns with holes, made of the frames of any library and turned back into them.

Doors: `backends`, `backends.batches`, `backends.duckdb`, `backends.local`, `cells`, `columns`, `formats`,
`formats.base`, `formats.database_base`, `formats.delimited`, `formats.files`, `formats.secrets`,
`formats.text_blocks`, `formats.typed_columns`, `frames.arrow`, `frames.frame`, `row_numbers`, `rows`.
"""

from hybridbn.tables.rows import Rows
from hybridbn.tables.table import Table, read_rows, read_usable_frame

__all__ = ["Rows", "Table", "read_rows", "read_usable_frame"]
