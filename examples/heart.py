"""Learn a network from an incomplete table and ask it about the holes.

Run ``python examples/heart.py``; the table is described in ``examples/data/README.md``.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import hybridbn as hb

ARCS = [
    ("age", "disease"),
    ("sex", "disease"),
    ("disease", "pain"),
    ("disease", "angina"),
    ("disease", "depression"),
    ("disease", "cholesterol"),
    ("age", "rate"),
    ("disease", "rate"),
    ("age", "pressure"),
    ("pressure", "sugar"),
    ("depression", "slope"),
    ("age", "ecg"),
]
SHOWN = ["age", "sex", "cholesterol", "rate", "slope", "disease"]


def main() -> None:
    table = hb.read_table(Path(__file__).parent / "data" / "heart.csv")
    print(table)

    # discrete and continuous columns in one network, arcs in any direction: depression -> slope is number -> category
    network = hb.fit(ARCS, table, potentials="gaussian")
    print(f"\nlearned {network!r}\n")

    # one pass gives the posterior of every variable in every row; observed cells are certain, holes are not
    posteriors = network.posteriors(table)
    filled = table
    for name, posterior in posteriors.items():
        column = table[name]
        if table.is_discrete(name):
            filled = filled.with_array(name, np.where(column < 0, posterior.probabilities.argmax(axis=1), column))
        else:
            filled = filled.with_array(name, np.where(np.isnan(column), posterior.mean().round(), column))
    before, after = table.to_pandas()[SHOWN], filled.to_pandas()[SHOWN]
    rows = before.index[before.isna().any(axis=1)][:6]
    print("six patients with holes, filled with the most probable states and the expected values:\n")
    print(pd.concat({"before": before.loc[rows], "after": after.loc[rows]}, axis=1).to_string())

    patient = int(before.index[before["cholesterol"].isna()][0])
    cholesterol = posteriors["cholesterol"][patient]
    low, high = cholesterol.interval(0.9)
    print(
        f"\npatient {patient}: cholesterol is {cholesterol.mean():.0f} on average, {low:.0f} to {high:.0f} with 90 % "
        f"probability\n"
    )
    print(network.explain("disease", {"sex": "male", "age": 54.0, "depression": 2.0, "rate": 120.0}, state="yes"))


if __name__ == "__main__":
    main()
