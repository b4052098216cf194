"""
Observed and imputed
====================

Cholesterol where it was measured, and where it was drawn. The drawn values need not have the same
distribution: they are those of the patients whose measurement is missing.
"""

import matplotlib.pyplot as plt
import numpy as np

import hybridbn as hb

heart = hb.datasets.load_heart()
holes = heart["cholesterol"].isna()
drawn = [table["cholesterol"][holes] for table in hb.impute(heart, draws=20, random_state=0)]

fig, ax = plt.subplots(figsize=(7, 3.5))
bins = np.arange(80, 620, 20)
ax.hist(heart["cholesterol"].dropna().astype(float), bins=bins, density=True, alpha=0.6, label="observed")
ax.hist(np.concatenate(drawn).astype(float), bins=bins, density=True, histtype="step", color="black", label="drawn")
ax.set(xlabel="cholesterol", ylabel="density")
ax.legend()
