"""
The same network, given evidence
================================

Known nodes are marked, and all others show what follows: here for women of 58 with a cholesterol
between 240 and 300.
"""

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "disease", "cholesterol", "angina"]]
net = hb.fit("age -> disease <- sex; disease -> cholesterol <- age; disease -> angina", heart)
net.plot({"age": 58, "sex": "female", "cholesterol": hb.Interval(240, 300)})
