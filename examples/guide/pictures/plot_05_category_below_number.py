"""
A category below a number
=========================

Whether a crop is bought depends on its price. A logistic regression and steps, learned from the
same 500 rows, beside the probability that the rows were drawn with.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

market = hb.datasets.load_market()
prices = np.linspace(4, 15, 300)

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.plot(prices, 1 / (1 + np.exp(prices - 9)), color="black", linestyle=":", label="truth")
for family, label in {"gaussian": "logistic regression", "mte": "mixture of truncated exponentials"}.items():
    net = hb.fit("price -> buy", market[["price", "buy"]], potentials=family)
    ax.plot(prices, net.posterior("buy", hb.Table({"price": prices})).probability("yes"), label=label)
ax.set(xlabel="price", ylabel="probability of buying")
ax.legend()
