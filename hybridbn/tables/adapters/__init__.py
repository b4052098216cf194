"""Adapters of frame libraries: one module for each, found by being here."""
