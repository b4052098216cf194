"""Files and other libraries: save and load, exchange formats, pgmpy.

Doors: `files`, `hbn`, `networks`, `networks.pgmpy`, `secrets`, `tables`, `tables.base`, `tables.columnar`,
`tables.database_base`, `tables.delimited`, `tables.parquet_codes`, `tables.pyarrow_checks`, `tables.text_blocks`,
`tables.typed_columns`.
"""
