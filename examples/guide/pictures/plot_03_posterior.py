"""
A number before and after
=========================

The greatest heart rate under exercise, before anything is known and for two patients.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

heart = hb.datasets.load_heart()
net = hb.fit("disease -> rate <- age", heart[["disease", "rate", "age"]], potentials="gaussian")

# %%
# A posterior has the methods of a frozen distribution of scipy.

fig, ax = plt.subplots(figsize=(7, 3.5))
points = np.linspace(60, 220, 400)
for label, evidence in {
    "nothing known": {},
    "35 years, healthy": {"age": 35, "disease": "no"},
    "60 years, ill": {"age": 60, "disease": "yes"},
}.items():
    posterior = net.posterior("rate", evidence)
    ax.plot(points, posterior.pdf(points), label=f"{label}: {posterior.mean():.0f} ± {posterior.std():.0f}")
ax.set(xlabel="rate", ylabel="density", ylim=(0, None))
ax.legend()
