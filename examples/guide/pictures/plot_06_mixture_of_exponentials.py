"""
A density of truncated exponentials
===================================

Pieces and terms are chosen by the Bayesian information criterion; beyond the data the density falls
off exponentially, so that a value out there is unlikely, but possible.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

values = hb.datasets.load_cars()["mpg"].to_numpy(float)
net = hb.fit([], {"mpg": values}, potentials="mte")
density = net.posterior("mpg")

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.hist(values, bins=30, density=True, color="lightgray", label="398 cars")
points = np.linspace(0, 55, 500)
ax.plot(points, density.pdf(points), label="mixture of truncated exponentials")
for end in net.potential("mpg").breaks("mpg"):
    ax.axvline(end, color="tab:blue", linewidth=0.5, alpha=0.5)
ax.set(xlabel="miles per gallon", ylabel="density", xlim=(0, 55))
ax.legend()
