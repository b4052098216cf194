"""The verbs of the command line, one a module; see `hybridbn.commands.verb`."""
