"""
Why is this patient thought to be ill?
======================================

What each finding adds to the log-odds, one after the other, from what is believed of everybody to
the posterior.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

net = hb.structures.naive_bayes(hb.datasets.load_heart(), "disease", potentials="gaussian")
patient = {"sex": "male", "age": 48.0, "pain": "other", "rate": 150.0, "angina": "yes", "depression": 0.5}
explained = net.explain("disease", patient, state="yes")

labels = ["everybody", *(f"{name} = {patient[name]}" for name in explained.weights)]
weights = np.array([explained.prior, *explained.weights.values()])
ends = weights.cumsum()

fig, ax = plt.subplots(figsize=(7, 3.5))
colors = np.where(weights > 0, "tab:red", "tab:green")
ax.barh(labels, weights, left=ends - weights, color=colors)
ax.axvline(0, color="black", linewidth=0.8)
ax.invert_yaxis()
ax.set(
    xlabel="log-odds of a disease", title=f"in all {explained.log_odds:+.2f}: probability {explained.probability:.2f}"
)
