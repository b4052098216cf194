"""
Codes, and an amount that is often zero
=======================================

Numbers with few values have a stem for each, as tall as its probability. An amount has a stem at zero, and a curve for
the rest, which shows the probabilities of intervals; dashed lines are what is believed without evidence.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

rng = np.random.default_rng(0)
stars = np.clip(np.rint(rng.normal(3.4, 1.1, 400)), 1, 5)
spent = np.where(rng.random(400) < 0.6 - 0.1 * stars, 0, rng.gamma(2 + stars, 20)).round(2)
net = hb.fit("stars -> spent", {"stars": stars, "spent": spent})

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
net.posterior("stars", {"spent": 0}).plot(axes[0], prior=net.posterior("stars"))
net.posterior("spent", {"stars": 2}).plot(axes[1], prior=net.posterior("spent"))
