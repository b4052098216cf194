"""Imputation against what else there is in Python, in one process run on the same holes.

Run ``python examples/benchmarks/imputation.py`` (half an hour): each mechanism once on each table, at a rate that
changes from one to the next. ``--full`` runs all mechanisms and rates with more rows (hours), ``--large`` only the
times on a table of 10,000 rows. ``--peers FILE`` keeps the figures of the other methods in a file, and reads them from
there when it exists, so that a change of the library is judged in a few minutes.

Tables are those of ``../shared/data`` where that is beside the repository, else those of scikit-learn and of this
repository, and four that are made: one with a column that nearly copies another one, one with curves, a skewed one, and
one with rare categories. A cell is made missing completely at random (MCAR), depending on the first column, which is
complete (MAR), or on its own value (MNAR). Shown are

* energy: the energy distance between the completed and the true table, times 1000; numbers in standard deviations,
  states as indicators. Of methods that draw, its mean over the draws.
* NRMSE and wrong: the root mean square error of numbers in their standard deviations, and the share of wrong
  categories. Of methods that draw it is the error of the mean, or the most frequent category, of the draws. hybridbn's
  point estimates are those of ``strategy="mean"``, a method of its own here.
* covered: how many of the true numbers lie between the least and the greatest of nineteen draws, which should be 90 %
  (a number that equals one of these counts by the chance that it would be outside, were ties broken by lot); only with
  ``--full``.
* seconds: CPU time for one completed table.

"forest" is IterativeImputer with random forests, as missForest does it. miceforest takes part where it is installed.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import hybridbn as hb

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
TABLES = (
    "autompg",
    "cholesterol",
    "credit-a",
    "housing",
    "bodyfat",
    "abalone3",
    "heart-statlog",
    "pbcc",
    "meta",
    "cpu",
    "pollution",
    "glass",
)
FEW, SOME, MANY = 3, 5, 19
MOST_ROWS, QUICK_ROWS = 700, 300
MECHANISMS, RATES = ("MCAR", "MAR", "MNAR"), (0.1, 0.3, 0.5)
Method = Callable[[pd.DataFrame, int], pd.DataFrame]


# -- tables and holes -----------------------------------------------------------------------------------------------


def tables(names: tuple[str, ...], most: int = MOST_ROWS) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield complete tables of numbers and categories."""
    for name, true in whole_tables(names):
        yield name, true.sample(min(len(true), most), random_state=0).reset_index(drop=True)


def whole_tables(names: tuple[str, ...]) -> Iterator[tuple[str, pd.DataFrame]]:
    for name in names:
        if name in MADE:
            yield name, MADE[name](np.random.default_rng(0))
    if SHARED.exists():
        for name in names:
            if name not in MADE:
                yield name, tidy(hb.read_table(SHARED / f"{name}.arff").to_pandas())
        return
    yield "heart", tidy(hb.read_table(ROOT / "examples" / "data" / "heart.csv").to_pandas())
    for load in (load_iris, load_wine, load_breast_cancer):
        data = load(as_frame=True)
        frame = data.frame.rename(columns={"target": "class"})
        yield load.__name__.removeprefix("load_"), tidy(frame.assign(**{"class": data.target_names[data.target]}))
    frame = load_diabetes(as_frame=True, scaled=False).frame
    yield "diabetes", tidy(frame.assign(sex=np.where(frame["sex"] > 1, "m", "f")))
    third = pd.qcut(frame["target"], 3, labels=["low", "middle", "high"]).astype(str)
    yield "diabetes in classes", tidy(frame.assign(sex=np.where(frame["sex"] > 1, "m", "f"), target=third))


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Return complete rows, without constants and without columns of very many states; numbers as floats."""
    frame = frame.dropna(axis=1, thresh=int(0.7 * len(frame))).dropna()
    kept = {}
    for name in frame:
        numeric = pd.api.types.is_numeric_dtype(frame[name]) and frame[name].dtype != bool
        column = frame[name].astype(float if numeric else str)
        if column.nunique() > 1 and (numeric or column.nunique() <= 15):
            kept[str(name)] = column
    return pd.DataFrame(kept)


def near_copy(rng: np.random.Generator) -> pd.DataFrame:
    x, z, u, v, w = rng.normal(size=(5, 500))
    y = 0.5 * x + 0.8 * z + 0.5 * u
    return pd.DataFrame({"x": x, "copy": 3 + 2 * x + 0.15 * v, "y": y, "z": z, "w": 0.4 * y + 0.4 * z + w})


def curved(rng: np.random.Generator) -> pd.DataFrame:
    x, u, v, w, t = rng.normal(size=(5, 500))
    kind = np.where(rng.random(500) < 1 / (1 + np.exp(2 - x**2)), "far", "near")
    frame = {"x": x, "square": x + x**2 + 0.4 * u, "wave": np.sin(2 * x) + 0.3 * v, "product": x * w + 0.3 * t, "w": w}
    return pd.DataFrame({**frame, "kind": kind})


def skewed(rng: np.random.Generator) -> pd.DataFrame:
    x, u, v, w = rng.normal(size=(4, 500))
    waiting = rng.gamma(1.5, np.exp(0.5 * x))
    count = rng.poisson(np.exp(0.3 + 0.6 * u)).astype(float)
    frame = {"x": x, "income": np.exp(1 + 0.6 * x + 0.5 * u), "waiting": waiting, "count": count}
    return pd.DataFrame(
        {**frame, "heavy": x + 0.5 * rng.standard_t(3, size=500), "spike": np.maximum(u + v, 0) + 0 * w}
    )


def rare(rng: np.random.Generator) -> pd.DataFrame:
    x, y, u = rng.normal(size=(3, 500))
    ill = np.where(x + 0.5 * rng.normal(size=500) > 1.7, "ill", "well")
    shares = np.exp(np.array([0 * x, x - 2, y - 3, 2 * x - 3, -2.5 + 0 * x]))
    kind = (rng.random(500) * shares.sum(axis=0) > np.cumsum(shares, axis=0)).sum(axis=0)
    frame = {"x": x, "y": y, "dose": np.where(ill == "ill", 3 + u, 0.3 * u) + 0.5 * x}
    return pd.DataFrame({**frame, "ill": ill, "kind": np.array(list("abcde"), dtype=object)[kind]})


MADE = {"near copy": near_copy, "curved": curved, "skewed": skewed, "rare": rare}


def large(rows: int = 10_000, columns: int = 20) -> pd.DataFrame:
    """Return a mixed table: half numbers, half categories, all of them depending on five factors."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(rows, 5))
    values = factors @ rng.normal(size=(5, columns)) + rng.normal(size=(rows, columns))
    frame = pd.DataFrame(values, columns=[f"v{i}" for i in range(columns)])
    for i in range(columns // 2, columns):
        frame[f"v{i}"] = np.array(list("abcd"), dtype=object)[np.digitize(values[:, i], [-2.0, 0.0, 2.0])]
    return frame


def holes(frame: pd.DataFrame, mechanism: str, rate: float, seed: int) -> pd.DataFrame:
    """Return where cells are made missing; under MAR the first column stays complete."""
    rng = np.random.default_rng(seed)
    shape = np.full(frame.shape, rate)
    if mechanism != "MCAR":
        for place, name in enumerate(frame):
            driver = frame.iloc[:, 0] if mechanism == "MAR" else frame[name]
            rank = (driver if pd.api.types.is_numeric_dtype(driver) else driver.astype("category").cat.codes).rank(
                pct=True
            )
            # from half the rate to one and a half times it
            shape[:, place] = rate * (0.5 + rank)
        if mechanism == "MAR":
            shape[:, 0] = 0.0
    mask = rng.random(frame.shape) < shape
    mask[mask.all(axis=1), -1] = False
    return pd.DataFrame(mask, columns=frame.columns)


# -- methods --------------------------------------------------------------------------------------------------------


def numbers_of(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]


def dummies(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the frame with indicators for all states but the first, missing where the state is."""
    numbers, states, parts = numbers_of(frame), {}, [frame[numbers_of(frame)]]
    for name in frame:
        if name not in numbers:
            states[name] = sorted(frame[name].dropna().unique())
            found = pd.DataFrame({f"{name}={s}": (frame[name] == s).astype(float) for s in states[name][1:]})
            parts.append(found.mask(frame[name].isna()))
    return pd.concat(parts, axis=1), states


def through_dummies(frame: pd.DataFrame, work: Callable[[pd.DataFrame], np.ndarray]) -> pd.DataFrame:
    """Impute indicators as numbers; the largest wins."""
    coded, states = dummies(frame)
    filled = pd.DataFrame(work(coded), columns=coded.columns, index=frame.index)
    result = frame.copy()
    for name in frame:
        hole = frame[name].isna()
        if name not in states:
            result.loc[hole, name] = filled.loc[hole, name]
        elif hole.any():
            rest = filled[[f"{name}={s}" for s in states[name][1:]]].to_numpy()
            scores = np.column_stack([1 - rest.sum(axis=1), rest])
            result.loc[hole, name] = np.array(states[name], dtype=object)[scores.argmax(axis=1)][hole.to_numpy()]
    return result


def simple(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    result, numbers = frame.copy(), numbers_of(frame)
    result[numbers] = SimpleImputer().fit_transform(frame[numbers])
    return result.assign(**{n: frame[n].fillna(frame[n].mode()[0]) for n in frame if n not in numbers})


def neighbors(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    def work(coded: pd.DataFrame) -> np.ndarray:
        mean, sd = coded.mean(), coded.std().replace(0, 1)
        return KNNImputer().fit_transform((coded - mean) / sd) * sd.to_numpy() + mean.to_numpy()

    return through_dummies(frame, work)


def iterative(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    imputer = IterativeImputer(sample_posterior=True, random_state=seed)
    return through_dummies(frame, imputer.fit_transform)


def miss_forest(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    from sklearn.ensemble import RandomForestRegressor

    trees = RandomForestRegressor(n_estimators=30, max_features="sqrt", random_state=seed)
    imputer = IterativeImputer(trees, max_iter=5, random_state=seed)
    return through_dummies(frame, imputer.fit_transform)


def adapt_lightgbm() -> None:
    """Let miceforest call a method of lightgbm by position, whose argument is named since version 4.7."""
    from lightgbm import Booster

    name = "_Booster__inner_predict"
    method = getattr(Booster, name)
    if inspect.signature(method).parameters["data_idx"].kind is inspect.Parameter.KEYWORD_ONLY:
        setattr(Booster, name, lambda self, data_idx: method(self, data_idx=data_idx))


def boosted_trees(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    import miceforest

    adapt_lightgbm()
    numbers = numbers_of(frame)
    typed, names = frame.copy(), {}
    for place, name in enumerate(frame):
        names[name] = f"c{place}"  # lightgbm refuses some characters
        if name not in numbers:
            levels = sorted(frame[name].dropna().unique())
            typed[name] = pd.Categorical(frame[name], categories=levels)
    renamed = typed.rename(columns=names)
    try:
        kernel = miceforest.ImputationKernel(renamed, num_datasets=1, random_state=seed)
        kernel.mice(5, num_threads=1, verbose=False)
    except ValueError:
        # its usual matching of probabilities fails where a model is sure of itself
        kernel = miceforest.ImputationKernel(renamed, num_datasets=1, random_state=seed, mean_match_strategy="fast")
        kernel.mice(5, num_threads=1, verbose=False)
    found = kernel.complete_data(0).set_axis(frame.columns, axis=1)
    return found.assign(**{name: found[name].astype(str) for name in frame if name not in numbers})


def drawn(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    return hb.impute(frame, random_state=seed)


def expected(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    return hb.impute(frame, strategy="mean", random_state=seed)


def draws_of(method: str, frame: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    """Return several draws: of hybridbn proper ones from one chain, of others one run for each."""
    if method == "hybridbn":
        return hb.impute(frame, draws=count, random_state=0)
    return [METHODS[method](frame, seed) for seed in range(count)]


METHODS: dict[str, Method] = {
    "hybridbn": drawn,
    "hybridbn mean": expected,
    "mean/mode": simple,
    "KNN": neighbors,
    "forest": miss_forest,
    "iterative": iterative,
}
SAMPLERS = {"iterative", "hybridbn", "miceforest"}
if importlib.util.find_spec("miceforest"):
    METHODS["miceforest"] = boosted_trees


# -- scores ---------------------------------------------------------------------------------------------------------


def coded(frame: pd.DataFrame, true: pd.DataFrame) -> np.ndarray:
    parts = []
    for name in true:
        if name in numbers_of(true):
            parts.append((frame[name].to_numpy(float) / true[name].std())[:, None])
        else:
            states = sorted(true[name].unique())
            same = frame[name].to_numpy(object)[:, None] == np.array(states, dtype=object)
            parts.append(same / np.sqrt(2))
    return np.concatenate(parts, axis=1)


def energy(frame: pd.DataFrame, true: pd.DataFrame) -> float:
    a, b = coded(frame, true)[:2000], coded(true, true)[:2000]
    return float(2 * cdist(a, b).mean() - cdist(a, a).mean() - cdist(b, b).mean())


def scores(draws: list[pd.DataFrame], true: pd.DataFrame, mask: pd.DataFrame) -> dict[str, float]:
    squares, single, wrong = [], [], []
    for name in true:
        where = mask[name].to_numpy()
        yours = true[name].to_numpy()[where]
        cells = np.array([frame[name].to_numpy()[where] for frame in draws])
        if name in numbers_of(true):
            single.append(((cells[0] - yours) / true[name].std()) ** 2)
            squares.append(((cells.mean(axis=0) - yours) / true[name].std()) ** 2)
        elif where.any():
            states = np.unique(np.concatenate([cells.ravel(), yours]).astype(str))
            votes = (cells.astype(str)[:, :, None] == states).sum(axis=0)
            wrong.append(states[votes.argmax(axis=1)] != yours.astype(str))
    return {
        "NRMSE": float(np.sqrt(np.concatenate(squares).mean())) if squares else np.nan,
        "one": float(np.sqrt(np.concatenate(single).mean())) if squares else np.nan,
        "wrong": float(np.concatenate(wrong).mean()) if wrong else np.nan,
        "energy": 1000 * float(np.mean([energy(frame, true) for frame in draws])),
    }


def coverage(completed: list[pd.DataFrame], true: pd.DataFrame, mask: pd.DataFrame) -> float:
    """Return how often the truth is neither the least nor the greatest of the draws and
    itself, ties broken by chance.
    """
    inside = []
    for name in numbers_of(true):
        where = mask[name].to_numpy()
        cells = np.array([frame[name].to_numpy(float)[where] for frame in completed])
        yours = true[name].to_numpy()[where]
        # one that equals the end of k draws would be the end of k + 1 equal ones
        ties = (cells == yours).sum(axis=0)
        outside = (yours <= cells.min(axis=0)).astype(float) + (yours >= cells.max(axis=0))
        inside.append(1 - outside / (1 + ties))
    return float(np.concatenate(inside).mean()) if inside else np.nan


# -- the runs -------------------------------------------------------------------------------------------------------


def cells_of(position: int, full: bool) -> list[tuple[str, float]]:
    """Return the mechanisms and rates for a table: all, or each mechanism with one rate."""
    if full:
        return [(mechanism, rate) for mechanism in MECHANISMS for rate in RATES]
    return [(mechanism, RATES[(position + i) % len(RATES)]) for i, mechanism in enumerate(MECHANISMS)]


def judge(method: str, true: pd.DataFrame, mask: pd.DataFrame, full: bool) -> dict[str, float]:
    """Return what is shown of a method for a table with holes."""
    frame = true.mask(mask)
    spent, completed = seconds(partial(METHODS[method], frame, 0))
    if method not in SAMPLERS:
        return {**scores([completed], true, mask), "covered": np.nan, "seconds": spent}
    draws = draws_of(method, frame, MANY if full else FEW)
    covered = coverage(draws, true, mask) if full else np.nan
    return {**scores(draws[:SOME], true, mask), "covered": covered, "seconds": spent}


def grid(report: Report, full: bool, names: tuple[str, ...], peers: Path | None) -> None:
    kept: dict[tuple[Any, ...], dict[str, float]] = {}
    if peers is not None and peers.exists():
        saved = pd.read_csv(peers).to_dict("records")
        kept = {(row.pop("table"), row.pop("mechanism"), row.pop("rate"), row.pop("method")): row for row in saved}
    rows: list[dict[str, Any]] = []
    for position, (name, true) in enumerate(tables(names, MOST_ROWS if full else QUICK_ROWS)):
        numbers = len(numbers_of(true))
        print(f"\n{name}: {len(true)} rows, {numbers} numbers, {true.shape[1] - numbers} categories")
        for mechanism, rate in cells_of(position, full):
            mask = holes(true, mechanism, rate, 1)
            first = len(rows)
            for method in METHODS:
                figures = kept.get((name, mechanism, rate, method))
                if figures is None or method.startswith("hybridbn"):
                    figures = judge(method, true, mask, full)
                rows.append({"table": name, "mechanism": mechanism, "rate": rate, "method": method, **figures})
            shown = pd.DataFrame(rows[first:]).drop(columns=["table"]).dropna(axis=1, how="all")
            print(shown.round(3).to_string(index=False), flush=True)
            times = {row["method"]: row["seconds"] for row in rows[first:]}
            if "hybridbn" in times:
                report.add(f"{name}, {mechanism} {rate:.0%}", times["hybridbn"], times.get("iterative"))
            if peers is not None:
                known = {tuple(row[key] for key in ("table", "mechanism", "rate", "method")): row for row in rows}
                known |= {
                    key: {**dict(zip(("table", "mechanism", "rate", "method"), key, strict=True)), **row}
                    for key, row in kept.items()
                    if key not in known
                }
                pd.DataFrame([*known.values()]).to_csv(peers, index=False)
    summary(pd.DataFrame(rows))


def bench_small(report: Report, names: tuple[str, ...]) -> None:
    """Time what users of small tables wait for: one completed table, several, means."""
    for name, true in tables(names):
        frame = true.mask(holes(true, "MAR", 0.3, 1))
        for what, options in (("draw", {}), ("5 draws", {"draws": 5}), ("mean", {"strategy": "mean"})):
            ours, _ = seconds(partial(hb.impute, frame, random_state=0, **options))
            report.show(f"{name}, {len(frame)} x {frame.shape[1]}, MAR 30 %, {what}", ours)


def summary(judged: pd.DataFrame) -> None:
    """Print mean ranks: of draws by energy distance, and of point estimates by their errors."""
    cell = ["table", "mechanism", "rate"]
    methods = list(dict.fromkeys(judged["method"]))
    for figure, left_out in (("energy", "hybridbn mean"), ("NRMSE", "hybridbn"), ("wrong", "hybridbn")):
        part = judged[judged["method"] != left_out].dropna(subset=figure)
        ranks = part.assign(rank=part.groupby(cell)[figure].rank())
        of_method = ranks.groupby("method")["rank"]
        table = pd.DataFrame(
            {
                "mean rank": of_method.mean(),
                "worst": of_method.max(),
                "first": of_method.apply(lambda own: int((own < 1.5).sum())),
                "mean": part.groupby("method")[figure].mean(),
            }
        ).reindex([name for name in methods if name in set(part["method"])])
        print(f"\n{figure}, over {part.groupby(cell).ngroups} tables with holes:")
        print(table.round(3).to_string())
    print("\nCPU-seconds, on average:")
    print(judged.groupby("method")["seconds"].mean().reindex(methods).round(2).to_string())
    covered = judged.dropna(subset="covered")
    if len(covered):
        print("\n90 % intervals cover, on average:")
        print(covered.groupby(["mechanism", "method"])["covered"].mean().round(3).to_string())


def times(report: Report, rows: int) -> None:
    true = large(rows)
    mask = holes(true, "MCAR", 0.2, 1)
    print(f"\n{len(true)} rows, {true.shape[1]} columns, 20 % missing")
    times = {}
    for method in METHODS:
        if method != "KNN":  # whose distances take minutes
            times[method], completed = seconds(partial(METHODS[method], true.mask(mask), 0))
            shown = "  ".join(f"{key} {value:.3f}" for key, value in scores([completed], true, mask).items())
            print(f"{method:11} {times[method]:7.1f} s  {shown}", flush=True)
    if "hybridbn" in times:
        report.add(f"{rows:,} x {true.shape[1]}, MCAR 20 %", times["hybridbn"], times.get("iterative"))
        if "miceforest" in times:
            name = f"{rows:,} x {true.shape[1]}, MCAR 20 %, beside miceforest"
            report.add(name, times["hybridbn"], times["miceforest"])


if __name__ == "__main__":
    options_parser = parser(__doc__)
    options_parser.add_argument(
        "--full", action="store_true", help="all mechanisms and rates, intervals of every method"
    )
    options_parser.add_argument("--large", action="store_true", help="only the times on 10,000 rows")
    options_parser.add_argument("--tables", nargs="+", default=(*MADE, *TABLES), help="of ../shared/data, or made")
    options_parser.add_argument("--peers", type=Path, metavar="FILE", help="keep the figures of other methods here")
    options_parser.add_argument("--methods", nargs="+", default=list(METHODS), help=f"of {', '.join(METHODS)}")
    options = options_parser.parse_args()
    METHODS = {name: METHODS[name] for name in (["hybridbn"] if options.ours else options.methods)}
    with Report(options) as result:
        if options.ours:
            result.run(bench_small, ("autompg", "cpu", "heart-statlog"))
        elif not options.large:
            result.run(grid, options.full, tuple(options.tables), options.peers)
        result.run(times, 2000 if options.ours else 10_000)
