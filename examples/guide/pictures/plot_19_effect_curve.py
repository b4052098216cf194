"""
The effect of a price
=====================

The probability of buying if the price is set, whatever it would have been.
"""

import numpy as np

import hybridbn as hb

net = hb.fit("subsidy -> price <- crop; price -> buy", hb.datasets.load_market(), potentials="gaussian")
hb.effect(net, of="price", on="buy", values=np.linspace(5, 13, 33)).plot()
