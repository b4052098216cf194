"""The subcommands of the command line and what they share: inputs and outputs, column profiles, runs and reports.

Doors: `cli`.
"""
