"""
Why is this patient thought to be ill?
======================================

What each finding adds to the log-odds, one after the other, from what is believed of everybody to
the posterior.
"""

import hybridbn as hb

net = hb.structures.naive_bayes(hb.datasets.load_heart(), "disease", potentials="gaussian")
patient = {"sex": "male", "age": 48.0, "pain": "other", "rate": 150.0, "angina": "yes", "depression": 0.5}
net.explain("disease", patient, state="yes").plot()
