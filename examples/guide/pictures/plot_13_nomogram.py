"""
A nomogram of an ensemble
=========================

A hundred boosted naive Bayes networks of two classes are one naive Bayes network, so each value of
a column has a number of points, and the points of a patient add up to log-odds.
"""

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "pain", "rate", "angina", "depression", "disease"]]
ensemble = hb.boost(heart, "disease", algorithm="real", rounds=100, random_state=0)
ensemble.plot({"sex": "male", "age": 54.0, "depression": 2.0}, "yes")
