"""Trees of pairwise information: the maximum spanning tree and its direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from hybridbn.structures.dependence import Pair

__all__ = ["branches"]


def branches(
    names: Sequence[str],
    information: Mapping[Pair, float],
    importance: Mapping[str, float],
    root: str | None,
    threshold: float,
) -> dict[str, tuple[str, ...]]:
    """Return the parent of each node in the maximum spanning tree (or forest); roots have none.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    information : mapping from pairs to weights
        Pairs of no more than `threshold` are not joined. Of equal weights the pair that comes first in alphabetical
        order is preferred.
    importance : mapping from node to number
        In each tree the node of greatest importance becomes the root, unless it holds `root`; of equal ones the first in
        alphabetical order.

    Examples
    --------
    >>> pairs = {("a", "b"): 3.0, ("a", "c"): 2.0, ("b", "c"): 1.0, ("a", "d"): 0.0}
    >>> branches("dcba", pairs, {"a": 0, "b": 1, "c": 0, "d": 9}, None, 0.0)
    {'d': (), 'c': ('a',), 'b': (), 'a': ('b',)}
    """
    graph = nx.Graph()
    graph.add_nodes_from(sorted(names))
    # Kruskal's algorithm takes equal weights in the order in which they were added
    graph.add_weighted_edges_from((*pair, weight) for pair, weight in sorted(information.items()) if weight > threshold)
    tree = nx.maximum_spanning_tree(graph, algorithm="kruskal")
    parents: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for nodes in nx.connected_components(tree):
        top = root if root in nodes else min(nodes, key=lambda node: (-importance[node], node))
        parents.update((child, (parent,)) for parent, child in nx.bfs_edges(tree, top))
    return parents
