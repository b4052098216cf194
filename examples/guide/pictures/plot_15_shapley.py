"""
Shapley values of findings
==========================

The contribution of each finding to the probability, averaged over all orders in which the findings
could have come.
"""

import matplotlib.pyplot as plt

import hybridbn as hb

net = hb.structures.tan(hb.datasets.load_heart(), "disease", potentials="gaussian")
patient = {"sex": "male", "age": 48.0, "pain": "other", "rate": 150.0, "angina": "yes"}
values = hb.shapley_values(net, "disease", patient)

fig, ax = plt.subplots(figsize=(7, 3))
order = sorted(values, key=values.get)
ax.barh([f"{name} = {patient[name]}" for name in order], [values[name] for name in order], color="tab:blue")
ax.axvline(0, color="black", linewidth=0.8)
before, after = net.posterior("disease").probability("yes"), net.posterior("disease", patient).probability("yes")
ax.set(xlabel="contribution to the probability", title=f"from {min(before, after):.2f} to {max(before, after):.2f}")
