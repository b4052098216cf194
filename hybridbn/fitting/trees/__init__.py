"""Growing trees: one loop, and the criteria that say which split of a node is best.

`growth` has the loop, `likelihood_splits` divides the parents of a density into cells, `column_splits` grows naive
Bayes trees, and `regression_splits` model trees; `randomized_trees` grows a forest of random splits at once.
"""
