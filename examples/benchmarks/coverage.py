"""How often 95 % intervals that are pooled over imputed tables hold the true value.

Run ``python examples/benchmarks/coverage.py`` (two minutes; ``--replications 200`` for a first look). In each
replication 200 rows are drawn, y = 1 + 0.8 x + noise, and y is made missing in 40 % of the rows, the more often the
larger x is (missing at random). The table is imputed twenty times, and four quantities are estimated from each table
and pooled by Rubin's rules with the degrees of freedom of Barnard and Rubin: the mean of y, the slope of y on x, the
reverse slope of x on y, and the share of rows with y > 2.5. ``--mixed`` adds a category that both depend on, missing in
20 % of the rows.

With 1000 replications, a method whose coverage is .95 gets between .93 and .97; accepted are .921 to .975 for mean and
slopes. "z" is the bias in standard errors. Imputation with learned parameters taken for the true ones covers .87 of the
slopes, with conditional means .68.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from rows import Report, parser, seconds
from scipy.special import expit, ndtr

import hybridbn as hb

SLOPE, NOISE = 0.8, 0.6
GROUP = {"a": -0.5, "b": 0.0, "c": 0.5}
ACCEPTED = (0.921, 0.975)


def sample(rows: int, mixed: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Return an incomplete table; x has variance one."""
    if not mixed:
        x = rng.normal(size=rows)
        frame = pd.DataFrame({"x": x, "y": 1 + SLOPE * x + NOISE * rng.normal(size=rows)})
    else:
        group = rng.choice(list(GROUP), size=rows)
        shift = np.array([GROUP[g] for g in group])
        x = shift + np.sqrt(1 - 1 / 6) * rng.normal(size=rows)
        frame = pd.DataFrame({"group": group, "x": x, "y": 1 + SLOPE * x + NOISE * rng.normal(size=rows)})
        frame.loc[rng.random(rows) < 0.2, "group"] = None
    # the logistic function of 1.5 x - 0.57 is 0.4 on average over x
    frame.loc[rng.random(rows) < expit(1.5 * frame["x"] - 0.57), "y"] = np.nan
    return frame


def truth(mixed: bool) -> dict[str, float]:
    """Return the true values."""
    deviation = np.sqrt(SLOPE**2 + NOISE**2)
    tail = float(ndtr(-1.5 / deviation))
    if mixed:
        within = np.sqrt(SLOPE**2 * (1 - 1 / 6) + NOISE**2)
        tail = float(np.mean([ndtr(-(1.5 - SLOPE * shift) / within) for shift in GROUP.values()]))
    return {"mean": 1.0, "slope": SLOPE, "reverse slope": SLOPE / deviation**2, "tail": tail}


def estimates(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return estimates and their squared standard errors from a complete table."""
    x, y, n = frame["x"].to_numpy(), frame["y"].to_numpy(), len(frame)
    tail = float((y > 2.5).mean())
    return {
        "mean": (y.mean(), y.var(ddof=1) / n),
        "slope": slope(x, y),
        "reverse slope": slope(y, x),
        "tail": (tail, tail * (1 - tail) / n),
    }


def slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    x, y = x - x.mean(), y - y.mean()
    found = x @ y / (x @ x)
    return float(found), float(np.square(y - found * x).sum() / (len(x) - 2) / (x @ x))


def study(rows: int, replications: int, draws: int, mixed: bool, seed: int) -> pd.DataFrame:
    """Return the pooled estimates of every replication."""
    true, records = truth(mixed), []
    for replication in range(replications):
        incomplete = sample(rows, mixed, np.random.default_rng([seed, replication]))
        found = [estimates(table) for table in hb.impute(incomplete, draws=draws, random_state=replication)]
        for name, value in true.items():
            values, variances = zip(*(one[name] for one in found), strict=True)
            pooled = hb.pool(values, variances, complete_df=rows - (1 if name in ("mean", "tail") else 2))
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


def report(found: pd.DataFrame) -> bool:
    """Print a line for each estimand, and tell whether the gated ones are in the band."""
    right = True
    for name, part in found.groupby("estimand", sort=False):
        covered = part["covered"].mean()
        z = part["error"].mean() / (part["error"].std() / np.sqrt(len(part)))
        inside = name == "tail" or ACCEPTED[0] <= covered <= ACCEPTED[1]
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
    options_parser.add_argument("--mixed", action="store_true", help="with a category, which is incomplete too")
    options_parser.add_argument("--seed", type=int, default=0)
    options = options_parser.parse_args()
    replications = options.replications or (3 if options.ours else 1000)
    print(f"hybridbn {hb.__version__}: {options.rows} rows, {options.draws} draws, {replications} replications")
    with Report(options) as result:
        for mixed in (False, True) if options.ours else (options.mixed,):
            study(options.rows, 1, 2, mixed, options.seed)  # imports are not timed
            spent, found = seconds(
                lambda mixed=mixed: study(options.rows, replications, options.draws, mixed, options.seed)
            )
            right = report(found)
            print(f"{spent:.0f} s")
            kind = "with a category" if mixed else "numbers"
            result.add(f"{options.draws} pooled tables of {options.rows} rows, {kind}", spent / replications)
    raise SystemExit(0 if right or options.ours else 1)


if __name__ == "__main__":
    main()
