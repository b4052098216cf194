"""Files and other libraries: save and load, exchange formats, pgmpy."""
