"""Posteriors of single variables and of several, with the method names of scipy."""
