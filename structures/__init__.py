"""Builders: functions that find a structure for data and return a fitted `Network`.

Part of the package ``hybridbn``; import it as ``hybridbn.structures``.
"""

if __name__ != "hybridbn.structures":
    raise ImportError("import hybridbn.structures, not structures")

from hybridbn.structures.naive_bayes import naive_bayes

__all__ = ["naive_bayes"]
