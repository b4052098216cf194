"""
Two numbers together
====================

Crop and price, when it is known that the crop was bought. Seen alone, each is a little shifted;
seen together, what a better crop adds a lower price takes.
"""

import hybridbn as hb

market = hb.datasets.load_market()
net = hb.fit("subsidy -> price <- crop; price -> buy", market, potentials="gaussian")
net.posterior(["crop", "price"], {"buy": "yes"}).plot()
