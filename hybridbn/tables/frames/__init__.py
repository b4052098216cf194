"""Adapters of frame libraries: each module of this package registers its own."""
