"""
Three families, one column
==========================

A strongly skewed column as a normal density, as kernels and as a mixture of truncated exponentials,
with the mean logarithm of each one's density on rows that it has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

values = hb.datasets.load_cars()["displacement"].to_numpy(float)
order = np.random.default_rng(0).permutation(len(values))
training, held_out = values[order[::2]], values[order[1::2]]

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.hist(values, bins=40, density=True, color="lightgray")
points = np.linspace(0, 500, 600)
for family in ("gaussian", "kernel", "mte"):
    net = hb.fit([], {"displacement": training}, potentials=family)
    score = net.log_density(hb.Table({"displacement": held_out})).mean()
    ax.plot(points, net.posterior("displacement").pdf(points), label=f"{family}: {score:.2f}")
ax.set(xlabel="displacement", ylabel="density")
ax.legend(title="held-out log density")
