"""Draw the picture of the README and of the guide's first page: python examples/guide/picture.py."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import hybridbn as hb

heart = hb.datasets.load_heart()[["age", "sex", "disease", "cholesterol", "angina"]]
net = hb.fit("age -> disease <- sex; disease -> cholesterol <- age; disease -> angina", heart)
axes = net.plot({"age": 58, "sex": "female", "cholesterol": hb.Interval(240, 300)})
axes.figure.savefig(
    Path(__file__).parent / "images" / "heart.png", dpi=110, bbox_inches="tight", metadata={"Software": None}
)
