"""Draw the picture of the README and of the guide's first page: python examples/guide/picture.py."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "disease", "rate", "angina"]]
arcs = "age -> disease <- sex; age -> rate <- disease; disease -> angina"
net = hb.fit(arcs, heart, potentials={"disease": "softmax"})
axes = net.plot({"age": 58, "sex": "female", "rate": hb.Interval(100, 120)})
axes.figure.savefig(
    Path(__file__).parent / "images" / "heart.png", dpi=110, bbox_inches="tight", metadata={"Software": None}
)
