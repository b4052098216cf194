"""
A learned structure
===================

Tree-augmented naive Bayes: every column depends on the disease and on one other column, which tells
most about it.
"""

import hybridbn as hb

heart = hb.datasets.load_heart()[["disease", "age", "sex", "pain", "rate", "angina", "depression"]]
net = hb.structures.tan(heart, "disease", potentials="gaussian")
net.plot()
