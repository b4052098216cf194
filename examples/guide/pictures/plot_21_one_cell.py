"""
One missing cell
================

What is known of the cholesterol of one patient, and forty draws from it.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

heart = hb.datasets.load_heart()
net = hb.structures.tan(heart, "disease", potentials="gaussian")
row = int(np.flatnonzero(heart["cholesterol"].isna())[3])
posterior = net.posterior("cholesterol", heart.iloc[[row]])[0]

fig, ax = plt.subplots(figsize=(7, 3.5))
points = np.linspace(0, 550, 400)
ax.plot(points, posterior.pdf(points))
low, high = posterior.interval(0.9)
ax.axvspan(low, high, alpha=0.1, label=f"90 %: {low:.0f} to {high:.0f}")
ax.plot(posterior.sample(40, random_state=0), np.zeros(40), "|", color="black", markersize=12, label="draws")
ax.set(xlabel="cholesterol", ylabel="density")
ax.legend()
