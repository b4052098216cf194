"""Rows of typed columns with holes, from anywhere, in batches, and who reads them.

`frames` are those of other libraries in memory, `formats` those of files and databases, and `backends` read what is
larger than memory in passes.

Doors: `backends`, `cells`, `columns`, `formats`, `formats.base`, `formats.database_base`, `formats.delimited`,
`formats.files`, `formats.typed_columns`, `rows`, `scales`.
"""

from hybridbn.tables.rows import Rows
from hybridbn.tables.table import Table, declare_rows, read_rows

__all__ = ["Rows", "Table", "declare_rows", "read_rows"]
