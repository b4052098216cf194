"""How often 95 % intervals that are pooled over imputed tables hold the true value.

Run ``python examples/benchmarks/coverage.py`` (two minutes; ``--replications 200`` for a first look). In each
replication 200 rows are drawn, y = 1 + 0.8 x + noise, and y is made missing in 40 % of the rows, the more often the
larger x is (missing at random). The table is imputed twenty times, and some quantities are estimated from each table
and pooled by Rubin's rules with the degrees of freedom of Barnard and Rubin: the mean of y, the slope of y on x, the
reverse slope of x on y, and the share of rows with y > 2.5. ``--table mixed`` adds a category that both depend on,
missing in 20 % of the rows; ``--table skewed`` has exponential noise; ``--table curved`` adds 0.5 x^2 to y, and
estimates the mean and the two slopes of the curve.

With 1000 replications, a method whose coverage is .95 gets between .93 and .97; accepted are .921 to .975 for all but
the share, and but the reverse slope of skewed tables, whose ordinary standard error is too small in complete ones. "z"
is the bias in standard errors. Imputation with learned parameters taken for the true ones covers .87 of the slopes,
with conditional means .68.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from rows import Report, parser, seconds
from scipy.integrate import trapezoid
from scipy.special import expit, ndtr

import hybridbn as hb

SLOPE, NOISE = 0.8, 0.6
GROUP = {"a": -0.5, "b": 0.0, "c": 0.5}
BEND = 0.5
ACCEPTED = (0.921, 0.975)
TABLES = ("linear", "mixed", "skewed", "curved")
UNGATED = {("linear", "tail"), ("mixed", "tail"), ("skewed", "tail"), ("skewed", "reverse slope")}


def sample(rows: int, table: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return an incomplete table; x has variance one."""
    if table != "mixed":
        x = rng.normal(size=rows)
        noise = rng.exponential(size=rows) - 1 if table == "skewed" else rng.normal(size=rows)
        bend = BEND * x**2 if table == "curved" else 0.0
        frame = pd.DataFrame({"x": x, "y": 1 + SLOPE * x + bend + NOISE * noise})
    else:
        group = rng.choice(list(GROUP), size=rows)
        shift = np.array([GROUP[g] for g in group])
        x = shift + np.sqrt(1 - 1 / 6) * rng.normal(size=rows)
        frame = pd.DataFrame({"group": group, "x": x, "y": 1 + SLOPE * x + NOISE * rng.normal(size=rows)})
        frame.loc[rng.random(rows) < 0.2, "group"] = None
    # the logistic function of 1.5 x - 0.57 is 0.4 on average over x
    frame.loc[rng.random(rows) < expit(1.5 * frame["x"] - 0.57), "y"] = np.nan
    return frame


def truth(table: str) -> dict[str, float]:
    """Return the true values."""
    if table == "curved":
        return {"mean": 1.0 + BEND, "slope": SLOPE, "bend": BEND}
    deviation = np.sqrt(SLOPE**2 + NOISE**2)
    tail = float(ndtr(-1.5 / deviation))
    if table == "mixed":
        within = np.sqrt(SLOPE**2 * (1 - 1 / 6) + NOISE**2)
        tail = float(np.mean([ndtr(-(1.5 - SLOPE * shift) / within) for shift in GROUP.values()]))
    elif table == "skewed":
        x = np.linspace(-8, 8, 20001)
        # of exponential noise, given x
        above = np.exp(-np.maximum((1.5 - SLOPE * x) / NOISE + 1, 0.0))
        tail = float(trapezoid(above * np.exp(-(x**2) / 2), x) / np.sqrt(2 * np.pi))
    return {"mean": 1.0, "slope": SLOPE, "reverse slope": SLOPE / deviation**2, "tail": tail}


def estimates(frame: pd.DataFrame, table: str) -> dict[str, tuple[float, float]]:
    """Return estimates and their squared standard errors from a complete table."""
    x, y, n = frame["x"].to_numpy(), frame["y"].to_numpy(), len(frame)
    mean = (y.mean(), y.var(ddof=1) / n)
    if table == "curved":
        design = np.column_stack([np.ones(n), x, x**2])
        inverse = np.linalg.inv(design.T @ design)
        found = inverse @ design.T @ y
        variances = np.diag(inverse) * np.square(y - design @ found).sum() / (n - 3)
        return {"mean": mean, "slope": (found[1], variances[1]), "bend": (found[2], variances[2])}
    tail = float((y > 2.5).mean())
    return {"mean": mean, "slope": slope(x, y), "reverse slope": slope(y, x), "tail": (tail, tail * (1 - tail) / n)}


def slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    x, y = x - x.mean(), y - y.mean()
    found = x @ y / (x @ x)
    return float(found), float(np.square(y - found * x).sum() / (len(x) - 2) / (x @ x))


def study(rows: int, replications: int, draws: int, table: str, seed: int) -> pd.DataFrame:
    """Return the pooled estimates of every replication."""
    true, records = truth(table), []
    for replication in range(replications):
        incomplete = sample(rows, table, np.random.default_rng([seed, replication]))
        found = [estimates(one, table) for one in hb.impute(incomplete, draws=draws, random_state=replication)]
        for name, value in true.items():
            values, variances = zip(*(one[name] for one in found), strict=True)
            pooled = hb.pool(
                values, variances, complete_df=rows - (1 if name in ("mean", "tail") else 2 + (table == "curved"))
            )
            low, high = pooled.interval(0.95)
            records.append(
                {
                    "estimand": name,
                    "covered": low <= value <= high,
                    "error": pooled.estimate - value,
                    "width": high - low,
                    "missing information": pooled.missing_information,
                }
            )
    return pd.DataFrame(records)


def report(found: pd.DataFrame, table: str) -> bool:
    """Print a line for each estimand, and tell whether the gated ones are in the band."""
    right = True
    for name, part in found.groupby("estimand", sort=False):
        covered = part["covered"].mean()
        z = part["error"].mean() / (part["error"].std() / np.sqrt(len(part)))
        inside = (table, name) in UNGATED or ACCEPTED[0] <= covered <= ACCEPTED[1]
        right &= bool(inside)
        print(
            f"{name:14} coverage {covered:.3f} {'' if inside else '  OUTSIDE'}  z {z:+.1f}  width "
            f"{part['width'].mean():.3f}  "
            f""
            f"missing information {part['missing information'].mean():.2f}"
        )
    return right


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--rows", type=int, default=200)
    options_parser.add_argument("--replications", type=int)
    options_parser.add_argument("--draws", type=int, default=20)
    options_parser.add_argument("--table", choices=TABLES, default="linear")
    options_parser.add_argument("--seed", type=int, default=0)
    options = options_parser.parse_args()
    replications = options.replications or (3 if options.ours else 1000)
    print(f"hybridbn {hb.__version__}: {options.rows} rows, {options.draws} draws, {replications} replications")
    with Report(options) as result:
        for table in ("linear", "mixed") if options.ours else (options.table,):
            study(options.rows, 1, 2, table, options.seed)  # imports are not timed
            spent, found = seconds(
                lambda table=table: study(options.rows, replications, options.draws, table, options.seed)
            )
            right = report(found, table)
            print(f"{spent:.0f} s")
            result.add(f"{options.draws} pooled tables of {options.rows} rows, {table}", spent / replications)
    raise SystemExit(0 if right or options.ours else 1)


if __name__ == "__main__":
    main()
