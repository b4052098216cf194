"""
Can the probabilities be believed?
==================================

Predicted probabilities of patients that the model has not seen, beside how often the disease was
there.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict

import hybridbn as hb

heart = hb.datasets.load_heart()
X, y = heart.drop(columns="disease"), (heart["disease"] == "yes").to_numpy()

fig, ax = plt.subplots(figsize=(4.5, 4.5))
ax.plot([0, 1], [0, 1], color="black", linestyle=":")
for builder in ("naive_bayes", "tan"):
    model = hb.HybridClassifier(builder, potentials="gaussian")
    predicted = cross_val_predict(model, X, heart["disease"], cv=10, method="predict_proba")[:, 1]
    groups = np.array_split(np.argsort(predicted), 6)
    ax.plot([predicted[group].mean() for group in groups], [y[group].mean() for group in groups], "o-", label=builder)
ax.set(xlabel="predicted", ylabel="observed", aspect="equal")
ax.legend()
