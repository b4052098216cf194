"""
Clusters of incomplete, mixed rows
==================================

A hidden node that all columns depend on. Rows with holes and columns of both kinds take part as
they are.
"""

import matplotlib.pyplot as plt

import hybridbn as hb

cars = hb.datasets.load_cars()
net = hb.structures.mixture(cars, random_state=0)
clusters = net.posterior("cluster", cars).probabilities.argmax(axis=1)

fig, ax = plt.subplots(figsize=(7, 4))
for cluster in range(clusters.max() + 1):
    mine = cars[clusters == cluster]
    ax.plot(mine["weight"], mine["mpg"], ".", label=f"{len(mine)} cars, {mine['origin'].mode()[0]}")
ax.set(xlabel="weight", ylabel="miles per gallon")
ax.legend()
