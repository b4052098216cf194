"""
What an answer depends on
=========================

How far the posterior moves if single parameters change by a tenth: all derivatives come from one
pass.
"""

import hybridbn as hb

votes = hb.datasets.load_votes()[["party", "crime", "immigration", "education_spending"]]
net = hb.structures.tan(votes, "party")
net.sensitivity("party", {"crime": "yea", "education_spending": "nay"}).plot()
