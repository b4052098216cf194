"""
A network and its beliefs
=========================

Arcs that somebody might draw who knows about hearts, densities from 294 patients with 225 missing
cells. Each node shows what is believed of it before anything is known: bars for states, a curve for
a number.
"""

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "disease", "rate", "angina"]]
arcs = "age -> disease <- sex; age -> rate <- disease; disease -> angina"
net = hb.fit(arcs, heart, potentials={"disease": "softmax"})
net.plot()
