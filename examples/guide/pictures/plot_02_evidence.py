"""
The same network, given evidence
================================

Known nodes are marked, and all others show what follows: here for women of 58 whose heart
reached a rate between 100 and 120.
"""

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "disease", "rate", "angina"]]
arcs = "age -> disease <- sex; age -> rate <- disease; disease -> angina"
net = hb.fit(arcs, heart, potentials={"disease": "softmax"})
net.plot({"age": 58, "sex": "female", "rate": hb.Interval(100, 120)})
