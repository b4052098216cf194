"""
How sure is each arc?
=====================

The search is repeated on resampled rows. The wider an arc is drawn, the more often it was there.
"""

import hybridbn as hb
from hybridbn.structures import hill_climb

market = hb.datasets.load_market()
sure = hb.bootstrap(hill_climb, market, replicates=50, potentials="gaussian", random_state=0)
sure.plot()
