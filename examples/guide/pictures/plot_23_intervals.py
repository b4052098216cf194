"""
Predictions with intervals
==========================

Consumption of cars that the model has not seen, with intervals that hold 90 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import hybridbn as hb

cars = hb.datasets.load_cars()
X_train, X_test, y_train, y_test = train_test_split(cars.drop(columns="mpg"), cars["mpg"], random_state=0)
model = hb.HybridRegressor("regression").fit(X_train, y_train)

order = np.argsort(model.predict(X_test))
low, high = model.predict_interval(X_test, 0.9)[order].T
truth = y_test.to_numpy(float)[order]

fig, ax = plt.subplots(figsize=(7, 3.5))
ax.fill_between(range(len(order)), low, high, alpha=0.2, label="90 % interval")
inside = (low <= truth) & (truth <= high)
ax.plot(np.flatnonzero(inside), truth[inside], ".", label=f"inside: {inside.mean():.0%}")
ax.plot(np.flatnonzero(~inside), truth[~inside], ".", color="tab:red", label="outside")
ax.set(xlabel="car, by prediction", ylabel="miles per gallon")
ax.legend()
