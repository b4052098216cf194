"""
A series, one year ahead
========================

Unemployment four quarters later, given today's unemployment, inflation and growth: lagged columns
in an ordinary network, learned from the quarters before 1990, with 80 % intervals.
"""

import matplotlib.pyplot as plt

import hybridbn as hb

economy = hb.datasets.load_economy()
series = economy[["quarter", "unemployment", "inflation"]].copy()
series["growth"] = economy["gdp"].pct_change(4) * 100
series["next year"] = series["unemployment"].shift(-4)

# %%
# Only quarters before 1989 are learned from: what they are to predict was known in 1990.

past = series[series["quarter"] < "1989"].drop(columns="quarter")
later = series[series["quarter"] >= "1990"].iloc[:-4]
net = hb.structures.regression(past.dropna(), "next year")
posterior = net.posterior("next year", later[["unemployment", "inflation", "growth"]])
low, high = posterior.interval(0.8).T

fig, ax = plt.subplots(figsize=(7, 3.5))
dates = later["quarter"] + (series["quarter"][4] - series["quarter"][0])
ax.fill_between(dates, low, high, alpha=0.2, label="predicted a year before, 80 %")
ax.plot(dates, posterior.mean())
ax.plot(series["quarter"], series["unemployment"], color="black", linewidth=1, label="unemployment")
ax.set(ylabel="percent", xlim=(series["quarter"].iloc[80], None))
ax.legend()
