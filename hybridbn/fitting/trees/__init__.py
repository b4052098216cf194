"""Growing trees: one loop, and the criteria that say which split of a node is best.

`growth` has the loop, `likelihood` splits for the densities of a child, `column_tests` for naive Bayes trees, and `regressions` for
model trees; `random_forest` grows many trees of random splits at once.
"""
