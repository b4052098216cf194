"""Growing trees: one loop, and the criteria that say which split of a node is best.

`growth` has the loop, and `likelihood_splits` divides the parents of a density into cells. The splits of naive Bayes
trees and of model trees, and random forests, stand beside their builders.
"""
