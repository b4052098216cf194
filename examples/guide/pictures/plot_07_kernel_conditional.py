"""
A density that changes its shape
================================

Kernels around the data describe how consumption depends on weight without a formula. Each column of
the picture is a density, and the white lines hold 80 % of it.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

cars = hb.datasets.load_cars()[["weight", "mpg"]]
net = hb.fit("weight -> mpg", cars, potentials="kernel")

weights, miles = np.linspace(1600, 5200, 120), np.linspace(5, 50, 160)
posterior = net.posterior("mpg", hb.Table({"weight": weights}))

fig, ax = plt.subplots(figsize=(7, 4))
ax.pcolormesh(weights, miles, posterior.pdf(miles).T, cmap="viridis")
ax.plot(weights, posterior.quantile([0.1, 0.9]), color="white", linewidth=1)
ax.plot(cars["weight"], cars["mpg"], ".", color="white", markersize=2)
ax.set(xlabel="weight", ylabel="miles per gallon")
