"""The directed graphs of networkx, whose types the stub beside this module tells, as networkx does not."""

from networkx import DiGraph as DirectedGraph

__all__ = ["DirectedGraph"]
