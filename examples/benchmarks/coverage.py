"""How often 95 % intervals that are pooled over imputed tables hold the true value, beside those of complete tables.

Run ``python examples/benchmarks/coverage.py`` (minutes; ``--replications 200`` for a first look, ``--table curved``
for one design). In each replication 200 rows are drawn and some cells made missing, mostly in about a third of the rows
of a column and the more often the larger another column is (missing at random), or completely at random. The table is
imputed twenty times, and some quantities are estimated from each table and pooled by Rubin's rules with the degrees of
freedom of Barnard and Rubin. The designs, each with the columns that have holes:

* linear (y), both (x and y), suppressor (three of four numbers, effects that cancel), skewed (y with exponential
  errors), heavy (x and y, errors with a t distribution), counts (a count and what it depends on), codes (ordered codes
  and what depends on them);
* curved (y, which depends on x and its square), predictor (b, of which y is a curve), explained (the same, missing
  the more often the larger y is), product (b and y, which depends on a, b and their product);
* mixed (a category and a number that depends on it), category (the same with skewed groups and heavy tails), odds (two
  categories).

Means, shares, quantiles, slopes, reverse slopes, bends, products, differences between categories and odds ratios have
the true values that a million complete rows give. Beside the pooled estimates stand those of the complete table, whose
coverage is what can be reached, as ordinary standard errors are too small where errors aren't normal, and those of
complete rows, which are biased where missingness depends on what is estimated. Accepted is a coverage of at most .03
less than that of the complete table, and three standard errors by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd
from rows import Report, parser, seconds
from scipy.special import expit
from scipy.stats import t as student

import hybridbn as hb

Estimates = dict[str, tuple[float, float]]
"""An estimate and its squared standard error for each quantity."""

LESS = 0.03
"""Accepted is a coverage that is so much less than that of complete tables."""
GROUP = {"a": -0.5, "b": 0.0, "c": 0.5}
CENTRAL = 1.96


# -- tables ---------------------------------------------------------------------------------------------------------


def linear(rows: int, rng: np.random.Generator, noise: Callable[[int], np.ndarray] | None = None) -> pd.DataFrame:
    """Return a line with errors whose standard deviation is .6."""
    x = rng.normal(size=rows)
    return pd.DataFrame({"x": x, "y": 1 + 0.8 * x + 0.6 * (noise or rng.normal)(size=rows)})


def skewed(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    return linear(rows, rng, lambda size: rng.exponential(size=size) - 1)


def heavy(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    return linear(rows, rng, lambda size: rng.standard_t(4, size=size))


def suppressor(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    a, g, e, noise = rng.normal(size=(4, rows))
    b = 0.6 * a - 0.4 * g + e
    return pd.DataFrame({"a": a, "b": b, "g": g, "y": 1 + a - 0.5 * b + 0.8 * g + 1.2 * noise})


def curved(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    frame = linear(rows, rng)
    return frame.assign(y=frame["y"] + 0.5 * frame["x"] ** 2)


def predictor(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    a, b, noise = rng.normal(size=(3, rows))
    return pd.DataFrame({"a": a, "b": b, "y": 0.5 * a + b + 0.6 * b**2 + noise})


def product(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    a, e, noise = rng.normal(size=(3, rows))
    b = 0.3 * a + e
    return pd.DataFrame({"a": a, "b": b, "y": a + b + 0.5 * a * b + noise})


def counts(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    a, x = rng.normal(size=(2, rows))
    return pd.DataFrame({"a": a, "x": x, "y": rng.poisson(np.exp(0.5 + 0.4 * x + 0.3 * a)).astype(float)})


def codes(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    a, latent, noise = rng.normal(size=(3, rows))
    c = 1.0 + np.searchsorted([-1.2, -0.3, 0.5, 1.4], 0.8 * a + latent)
    return pd.DataFrame({"a": a, "x": c, "y": 0.4 * c + 0.5 * a + noise})


def mixed(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    group = rng.choice(list(GROUP), size=rows)
    x = np.array([GROUP[g] for g in group]) + np.sqrt(1 - 1 / 6) * rng.normal(size=rows)
    return pd.DataFrame({"group": group, "x": x, "y": 1 + 0.8 * x + 0.6 * rng.normal(size=rows)})


def category(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    x, group = rng.normal(size=rows), rng.choice(["a", "b", "c"], p=[0.5, 0.3, 0.2], size=rows)
    return pd.DataFrame({"group": group, "x": x, "y": 1 + 0.5 * x + (group == "b") + rng.standard_t(5, size=rows)})


def odds(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    x, group = rng.normal(size=rows), np.where(rng.random(rows) < 0.4, "b", "c")
    sick = rng.random(rows) < expit(-0.3 + 0.7 * x + 0.9 * (group == "b"))
    return pd.DataFrame({"group": group, "x": x, "sick": np.where(sick, "yes", "no")})


# -- holes ----------------------------------------------------------------------------------------------------------


def remove(
    frame: pd.DataFrame, names: tuple[str, ...], rate: float, given: str | None, rng: np.random.Generator
) -> pd.DataFrame:
    """Return a table with cells missing at this rate, the more often the greater the given column is."""
    shift = 1.5 * (frame[given] - frame[given].mean()) / frame[given].std() if given else np.zeros(len(frame))
    # on average over a normal distribution of a variance of 1.5^2, the logistic function is flatter by this factor
    center = np.log(rate / (1 - rate)) * (np.sqrt(1 + 0.346 * 1.5**2) if given else 1)
    missing = {name: rng.random(len(frame)) < expit(shift + center) for name in names}
    return frame.assign(**{name: frame[name].mask(own) for name, own in missing.items()})


# -- quantities -----------------------------------------------------------------------------------------------------


def regress(y: np.ndarray, **columns: np.ndarray) -> Estimates:
    """Return the slopes of a linear regression, by the names of the columns less an underscore."""
    design = np.column_stack([np.ones(len(y)), *columns.values()])
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ y
    variances = np.diag(inverse) * np.square(y - design @ found).sum() / (len(y) - len(found))
    return {name.strip("_"): (found[k], variances[k]) for k, name in enumerate(columns, 1)}


def mean(values: np.ndarray) -> tuple[float, float]:
    return values.mean(), values.var(ddof=1) / len(values)


def quartile(values: np.ndarray) -> tuple[float, float]:
    """Return the upper quartile, with a standard error from the interval of its order statistics."""
    half = CENTRAL * np.sqrt(0.75 * 0.25 / len(values))
    low, middle, high = np.quantile(values, [0.75 - half, 0.75, min(0.75 + half, 1)])
    return middle, ((high - low) / 2 / CENTRAL) ** 2


def numbers(frame: pd.DataFrame) -> Estimates:
    """Return what is asked of x and y."""
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    reverse = regress(x, **{"reverse slope": y})
    return {"mean": mean(y), **regress(y, slope=x), **reverse, "quartile": quartile(y)}


def slopes(frame: pd.DataFrame) -> Estimates:
    y = frame["y"].to_numpy()
    return {"mean": mean(y), **regress(y, **{f"_{n}": frame[n].to_numpy() for n in frame if n != "y"})}


def bends(frame: pd.DataFrame) -> Estimates:
    y, x = (frame[name].to_numpy() for name in ("y", "b" if "b" in frame else "x"))
    others = {"other slope": frame["a"].to_numpy()} if "a" in frame else {}
    return {"mean": mean(y), "mean of x": mean(x), **regress(y, slope=x, bend=x**2, **others)}


def products(frame: pd.DataFrame) -> Estimates:
    a, b, y = (frame[name].to_numpy() for name in "aby")
    return {"mean": mean(y), **regress(y, a=a, b=b, product=a * b)}


def groups(frame: pd.DataFrame) -> Estimates:
    """Return the difference between a group and the others."""
    x, y, own = frame["x"].to_numpy(), frame["y"].to_numpy(), (frame["group"] == "b").to_numpy(float)
    return {"mean": mean(y), "share": mean(own), **regress(y, slope=x), **regress(y, difference=own)}


def ratios(frame: pd.DataFrame) -> Estimates:
    """Return the logarithm of an odds ratio."""
    x, own, sick = frame["x"].to_numpy(), frame["group"] == "b", frame["sick"] == "yes"
    cells = np.array([((own == i) & (sick == j)).sum() + 0.5 for i in (True, False) for j in (True, False)])
    ratio = (np.log(cells[0] * cells[3] / cells[1] / cells[2]), (1 / cells).sum())
    return {"odds ratio": ratio, "share": mean(sick.to_numpy(float)), **regress(sick.to_numpy(float), slope=x)}


# -- the study ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Design:
    """A table, its holes and what is estimated from it."""

    draw: Callable[[int, np.random.Generator], pd.DataFrame]
    estimate: Callable[[pd.DataFrame], Estimates]
    missing: tuple[str, ...]
    rate: float = 0.35
    given: str | None = None
    also: Mapping[str, float] = field(default_factory=dict)

    def remove(self, frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        """Return a table with holes."""
        frame = remove(frame, self.missing, self.rate, self.given, rng)
        for name, rate in self.also.items():
            frame = remove(frame, (name,), rate, None, rng)
        return frame

    @cache  # noqa: B019  # designs live as long as the module
    def truth(self) -> dict[str, float]:
        """Return what a million rows say."""
        frame = self.draw(1_000_000, np.random.default_rng(0))
        return {name: float(value) for name, (value, _) in self.estimate(frame).items()}


DESIGNS = {
    "linear": Design(linear, numbers, ("y",), 0.4, "x"),
    "both": Design(linear, numbers, ("x", "y"), 0.3),
    "suppressor": Design(suppressor, slopes, ("b", "y", "g"), given="a"),
    "skewed": Design(skewed, numbers, ("y",), 0.4, "x"),
    "heavy": Design(heavy, numbers, ("x", "y"), 0.3),
    "counts": Design(counts, slopes, ("x", "y"), 0.3, "a"),
    "codes": Design(codes, slopes, ("x", "y"), 0.3, "a"),
    "curved": Design(curved, bends, ("y",), 0.4, "x"),
    "predictor": Design(predictor, bends, ("b",), given="a"),
    "explained": Design(predictor, bends, ("b",), given="y"),
    "product": Design(product, products, ("b", "y"), 0.3, "a"),
    "mixed": Design(mixed, groups, ("y",), 0.4, "x", {"group": 0.2}),
    "category": Design(category, groups, ("y",), 0.4, "x", {"group": 0.25}),
    "odds": Design(odds, ratios, ("group", "sick"), 0.3, "x"),
}


def study(rows: int, replications: int, draws: int, table: str, seed: int) -> pd.DataFrame:
    """Return the pooled estimates of every replication, beside those of the complete table and of complete rows."""
    design, records = DESIGNS[table], []
    for replication in range(replications):
        rng = np.random.default_rng([seed, replication])
        whole = design.draw(rows, rng)
        incomplete = design.remove(whole, rng)
        found = [design.estimate(one) for one in hb.impute(incomplete, draws=draws, random_state=replication)]
        complete, remaining = design.estimate(whole), design.estimate(incomplete.dropna())
        for name, value in design.truth().items():
            values, variances = zip(*(one[name] for one in found), strict=True)
            degrees = rows - (1 if name in ("mean", "share", "quartile") else 3)
            pooled = hb.pool(values, variances, complete_df=degrees)
            low, high = pooled.interval(0.95)
            half = student.ppf(0.975, degrees) * np.sqrt(complete[name][1])
            records.append(
                {
                    "estimand": name,
                    "covered": low <= value <= high,
                    "of complete": abs(complete[name][0] - value) <= half,
                    "error": pooled.estimate - value,
                    "error of complete rows": remaining[name][0] - value,
                    "standard error": pooled.standard_error,
                    "missing information": pooled.missing_information,
                }
            )
    return pd.DataFrame(records)


def summarize(found: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each estimand, and whether its coverage is accepted."""
    of_estimand = found.groupby("estimand", sort=False)
    table = of_estimand[["covered", "of complete", "standard error", "missing information"]].mean()
    table.insert(2, "bias", of_estimand["error"].mean())
    table.insert(3, "spread", of_estimand["error"].std())
    table["spread of rows"] = of_estimand["error of complete rows"].std()
    chance = 3 * np.sqrt(0.05 * 0.95 * 2 / of_estimand.size())
    table["accepted"] = table["covered"] > table["of complete"] - LESS - chance
    return table


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--rows", type=int, default=200)
    options_parser.add_argument("--replications", type=int)
    options_parser.add_argument("--draws", type=int, default=20)
    options_parser.add_argument("--table", choices=list(DESIGNS))
    options_parser.add_argument("--seed", type=int, default=0)
    options = options_parser.parse_args()
    replications = options.replications or (3 if options.ours else 1000)
    print(f"hybridbn {hb.__version__}: {options.rows} rows, {options.draws} draws, {replications} replications")
    tables = ("linear", "mixed") if options.ours else (options.table,) if options.table else tuple(DESIGNS)
    right = True
    with Report(options) as result:
        for table in tables:
            study(options.rows, 1, 2, table, options.seed)  # imports are not timed
            spent, found = seconds(
                lambda table=table: study(options.rows, replications, options.draws, table, options.seed)
            )
            summary = summarize(found)
            right &= bool(summary["accepted"].all())
            print(f"\n{table}, {spent:.0f} s\n{summary.round(3).to_string()}", flush=True)
            result.add(f"{options.draws} pooled tables of {options.rows} rows, {table}", spent / replications)
    raise SystemExit(0 if right or options.ours else 1)


if __name__ == "__main__":
    main()
