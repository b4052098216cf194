"""
What to ask next
================

The information that each unobserved column has about the disease, for a patient of whom age and sex
are known.
"""

import matplotlib.pyplot as plt

import hybridbn as hb

net = hb.structures.tan(hb.datasets.load_heart(), "disease", potentials="gaussian")
worth = net.value_of_information("disease", {"sex": "male", "age": 48.0})

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.barh(worth.index, worth["information"], color="tab:blue")
ax.invert_yaxis()
ax.set(xlabel="mutual information with the disease, nats")
