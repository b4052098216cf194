"""Tables: typed columns with holes, made of the frames of any library and turned back into them."""

from hybridbn.tables.table import Table

__all__ = ["Table"]
