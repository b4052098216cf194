"""
How many draws are enough?
==========================

The pooled mean of a column and its 95 % interval, by the number of completed tables. With one table
there is no way to tell how much is unknown.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

votes = hb.datasets.load_votes()
tables = hb.impute(votes, draws=40, random_state=0)
yea = [(table["export_administration_act_south_africa"] == "yea").mean() for table in tables]
variances = [share * (1 - share) / len(votes) for share in yea]

counts = np.arange(2, 41, 2)
pooled = [hb.pool(yea[:count], variances[:count], complete_df=len(votes) - 1) for count in counts]
low, high = np.array([result.interval(0.95) for result in pooled]).T

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.fill_between(counts, low, high, alpha=0.2)
ax.plot(counts, [result.estimate for result in pooled])
observed = votes["export_administration_act_south_africa"].dropna()
ax.axhline((observed == "yea").mean(), color="black", linestyle=":", label="of those that are known")
ax.set(xlabel="completed tables", ylabel="share of yea")
ax.legend()
