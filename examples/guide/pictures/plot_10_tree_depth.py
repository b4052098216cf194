"""
How deep should a tree be?
==========================

Naive Bayes in the leaves of a tree, which is a network with a hidden node. Accuracy of a cross-
validation, alone and as ten boosted ones.
"""

from functools import partial

import matplotlib.pyplot as plt
from sklearn.model_selection import cross_val_score

import hybridbn as hb
from hybridbn.structures import nb_tree

votes = hb.datasets.load_votes()
X, y = votes.drop(columns="party"), votes["party"]
depths = [0, 1, 2, 3]

fig, ax = plt.subplots(figsize=(6, 3.5))
for label, boosted in {"one tree": None, "ten, boosted": 10}.items():
    scores = []
    for depth in depths:
        model = hb.HybridClassifier(partial(nb_tree, max_depth=depth), boost=boosted)
        scores.append(cross_val_score(model, X, y, cv=5).mean())
    ax.plot(depths, scores, "o-", label=label)
ax.set(xlabel="greatest depth", ylabel="accuracy", xticks=depths)
ax.legend()
