"""The command line: its subcommands and what they share, inputs and outputs, column profiles, runs and reports.

Doors: `cli`.
"""
