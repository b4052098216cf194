"""
Seeing is not doing
===================

A low price that is seen tells of a good crop; a price that is set tells nothing about the crop.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

net = hb.fit("subsidy -> price <- crop; price -> buy", hb.datasets.load_market(), potentials="gaussian")
points = np.linspace(1, 9, 300)

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.plot(points, net.posterior("crop").pdf(points), color="black", linestyle=":", label="nothing known")
ax.plot(points, net.posterior("crop", {"price": 6.0}).pdf(points), label="a price of 6 is seen")
ax.plot(points, net.do(price=6.0).posterior("crop").pdf(points), label="the price is set to 6")
ax.set(xlabel="crop", ylabel="density")
ax.legend()
