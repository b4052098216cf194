"""Tables read in passes: what is learned from them is what is learned from memory, whoever reads them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.inference.posteriors.batches import _BatchedDiscrete
from hybridbn.structures import chow_liu, hill_climb, kdb, naive_bayes, tan
from hybridbn.tables import read_rows
from hybridbn.tables.backends import base, profiles, sources

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def make_data(rows: int, seed: int, *, holes: float = 0.1) -> dict[str, Any]:
    """Skewed columns that depend on each other: text, integers, truth values and numbers, all with holes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, rows, p=[0.7, 0.25, 0.05])
    a = (y + rng.geometric(0.5, rows)) % 5
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(5, size=rows))
    x = rng.normal(size=rows) * (1 + y) + y
    z = 0.7 * x + rng.normal(size=rows)
    columns: dict[str, Any] = {
        "y": [("no", "perhaps", "yes")[code] for code in y],
        "a": [f"state {code}" for code in a],
        "k": [int(code) * 7 - 3 for code in b],
        "t": [bool(code) for code in (a + b) % 2],
        "x": x.tolist(),
        "z": z.tolist(),
    }
    for name in ("a", "k", "t", "z"):
        drawn = rng.random(rows) < holes
        columns[name] = [None if hole else value for hole, value in zip(drawn, columns[name], strict=True)]
    return columns


def write(folder: Path, data: dict[str, Any], files: Sequence[float] = (0.2, 0.7), groups: int = 37) -> str:
    """Write the rows into several files of small row groups; return the pattern of their names."""
    table = pa.table(data)
    edges = [0, *(int(share * table.num_rows) for share in files), table.num_rows]
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        parquet.write_table(table.slice(start, stop - start), folder / f"part-{number}.parquet", row_group_size=groups)
    return str(folder / "*.parquet")


def same(one: hb.Network, other: hb.Network) -> bool:
    """Tell whether two networks have the same arcs and, to the last bit, the same tables."""
    if list(one.edges) != list(other.edges) or list(one) != list(other):
        return False
    for name in one:
        mine, yours = one.potential(name), other.potential(name)
        if isinstance(mine, hb.Multinomial):
            if mine.variables != yours.variables or not np.array_equal(
                mine.table, as_kind(hb.Multinomial, yours).table
            ):
                return False
        elif mine.family == "gaussian":
            for what in ("intercept", "coefficients", "variance"):
                np.testing.assert_allclose(getattr(mine, what), getattr(yours, what), rtol=1e-9, atol=1e-12)
    return True


def names_of(data: dict[str, Any], *kept: str) -> dict[str, Any]:
    return {name: data[name] for name in kept}


BUILDERS: dict[str, Callable[..., hb.Network]] = {
    "naive_bayes": lambda data: naive_bayes(data, "y"),
    "tan": lambda data: tan(data, "y"),
    "kdb": lambda data: kdb(data, "y", k=2),
    "chow_liu": chow_liu,
    "hill_climb": lambda data: hill_climb(data, missing="available", restarts=1, turns=2),
    "fit": lambda data: hb.fit([("y", "a"), ("a", "k"), ("y", "k")], data),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_discrete_networks_are_those_from_memory(name: str, tmp_path: Path) -> None:
    data = names_of(make_data(800, 1), "y", "a", "k", "t")
    known = BUILDERS[name](hb.Table(data, discrete=["k"]))
    assert same(BUILDERS[name](hb.scan(write(tmp_path, data), discrete=["k"])), known)


@pytest.mark.parametrize("name", BUILDERS)
def test_normal_networks_are_those_from_memory(name: str, tmp_path: Path) -> None:
    data = make_data(600, 2)
    builder = BUILDERS[name]
    if name == "fit":
        build: Any = partial(hb.fit, [("y", "x"), ("x", "z"), ("y", "a"), ("y", "z")], potentials="gaussian")
    elif name == "hill_climb":
        # numbers alone: a state that depends on numbers has no finite statistics
        data = names_of(make_data(600, 2, holes=0.0), "x", "z")
        build = partial(hill_climb, potentials="gaussian", restarts=1)
    else:
        build = {
            "naive_bayes": partial(naive_bayes, target="y", potentials="gaussian"),
            "tan": partial(tan, target="y", potentials="gaussian"),
            "kdb": partial(kdb, target="y", potentials="gaussian"),
            "chow_liu": partial(chow_liu, potentials="gaussian"),
        }[name]
    assert builder is not None
    assert same(build(data=hb.scan(write(tmp_path, data))), build(data=hb.Table(data)))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(batch=st.integers(7, 400), groups=st.integers(5, 300), piece=st.integers(1, 500), seed=st.integers(0, 9))
def test_results_do_not_depend_on_batches_and_workers(
    batch: int, groups: int, piece: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = names_of(make_data(500, seed), "y", "a", "k", "t")
    folder = tmp_path_factory.mktemp("scan")
    pattern = write(folder, data, (0.31,), groups)
    known = tan(hb.Table(data, discrete=["k"]), "y")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as pool:
        patch.setattr(base, "BATCH_ROWS", batch)
        patch.setattr(sources.FileFragment.batches, "__defaults__", (batch,))
        patch.setattr(sources, "_FRAGMENT_ROWS", piece)
        for backend in (None, pool):
            assert same(tan(hb.scan(pattern, discrete=["k"], backend=backend), "y"), known)


def test_small_batches_and_threads_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.FileFragment.batches, "__defaults__", (41,))
    monkeypatch.setattr(sources, "_FRAGMENT_ROWS", 60)
    data = names_of(make_data(300, 18), "y", "a", "k")
    with ThreadPoolExecutor(3) as pool:
        scan = hb.scan(write(tmp_path, data, groups=29), discrete=["k"], backend=pool)
        assert same(tan(scan, "y"), tan(hb.Table(data, discrete=["k"]), "y"))


def test_weights_are_a_column(tmp_path: Path) -> None:
    data = names_of(make_data(400, 3), "y", "a", "t")
    weights = np.random.default_rng(0).integers(0, 4, 400).astype(float)
    pattern = write(tmp_path, data | {"w": weights.tolist()})
    known = tan(hb.Table(data, weights=weights), "y")
    assert same(tan(hb.scan(pattern, weights="w"), "y"), known)
    assert same(tan(hb.scan(pattern), "y", weights="w"), known)
    with pytest.raises(hb.TableError, match="one of its columns"):
        tan(hb.scan(pattern), "y", weights=weights)


def test_answers_are_those_from_memory(tmp_path: Path) -> None:
    data = make_data(500, 4)
    net = hb.fit([("y", "x"), ("x", "z"), ("y", "a")], data, "gaussian")
    table = hb.Table(data)
    scan = hb.scan(write(tmp_path, data))
    np.testing.assert_allclose(net.log_density(scan), net.log_density(table), rtol=1e-14)
    mine, known = net.posterior("y", scan), net.posterior("y", table)
    np.testing.assert_allclose(as_discrete(mine).probabilities, as_discrete(known).probabilities, atol=1e-12)
    assert sum(len(batch) for batch in as_kind(_BatchedDiscrete, mine).batches()) == len(mine) == 500
    np.testing.assert_allclose(net.posterior("x", scan).quantile(0.9), net.posterior("x", table).quantile(0.9))


def test_impossible_rows_are_numbered_in_the_whole_scan(tmp_path: Path) -> None:
    c, d = hb.Discrete("c", ("a", "b")), hb.Discrete("d", ("u", "v"))
    net = hb.Network(
        [hb.Multinomial(c, table=[0.5, 0.5]), hb.Multinomial(d, parents=(c,), table=[[1.0, 0.0], [1.0, 0.0]])]
    )
    cells = ["u"] * 300
    cells[251] = "v"
    with pytest.raises(hb.ImpossibleEvidence) as caught:
        as_discrete(net.posterior("c", hb.scan(write(tmp_path, {"d": cells})))).probabilities  # noqa: B018  it makes a pass
    assert caught.value.rows == (251,)


def test_a_sample_is_the_same_for_all_and_told(tmp_path: Path) -> None:
    data = names_of(make_data(900, 5), "x", "y")
    pattern = write(tmp_path, data)
    with ThreadPoolExecutor(2) as pool:
        samples = [hb.scan(pattern, sample=100, backend=backend).sample() for backend in (None, pool)]
    assert samples[0].equals(samples[1])
    assert len(samples[0]) == 100
    # however the rows are put into files
    (tmp_path / "whole").mkdir()
    assert hb.scan(write(tmp_path / "whole", data, ()), sample=100).sample().equals(samples[0])
    with pytest.warns(UserWarning, match="mte densities are learned from a sample of 100 of 900 rows"):
        hb.fit([("y", "x")], hb.scan(pattern, sample=100))
    # a sample of all rows is the table
    known, learned = (hb.fit([("y", "x")], one) for one in (hb.Table(data), hb.scan(pattern)))
    np.testing.assert_array_equal(learned.log_density(hb.Table(data)), known.log_density(hb.Table(data)))


def test_cut_points_come_from_the_sample(tmp_path: Path) -> None:
    data = names_of(make_data(700, 6), "x", "y")
    pattern = write(tmp_path, data)
    known = naive_bayes(data, "y", {"x": "multinomial"})
    assert same(naive_bayes(hb.scan(pattern), "y", {"x": "multinomial"}), known)


def test_naive_bayes_of_states_takes_one_pass_and_tan_two(tmp_path: Path) -> None:
    data = names_of(make_data(300, 7), "y", "a", "t")
    pattern = write(tmp_path, data)
    passes = {}
    for build in (naive_bayes, tan):
        scan = hb.scan(pattern)
        build(scan, "y")
        passes[build.__name__] = scan.passes.made
    assert passes == {"naive_bayes": 1, "tan": 2}


def test_the_moments_of_all_pairs_take_one_pass() -> None:
    columns = np.random.default_rng(0).normal(size=(6, 50)).tolist()
    passes = []
    for count in (2, 6):
        data = {f"x{number}": column for number, column in enumerate(columns[:count])}
        scan = hb.scan(data)
        assert same(chow_liu(scan, "gaussian"), chow_liu(hb.Table(data), "gaussian"))
        passes.append(scan.passes.made)
    assert passes[0] == passes[1]


def test_many_states_leave_a_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "TRACKED", 50)
    rng = np.random.default_rng(0)
    cells = [f"s{number:03}" for number in rng.zipf(1.5, 2000).clip(max=600)]
    data = {"c": cells, "y": rng.choice(["p", "n"], 2000).tolist()}
    pattern = write(tmp_path, data, groups=500)
    scan = hb.scan(pattern, most_states=8)
    with pytest.warns(UserWarning, match=r"columns of more than 8 states keep the most frequent ones.*'c'"):
        net = naive_bayes(scan, "y")
    frequent = [name for name, _ in sorted(((c, cells.count(c)) for c in set(cells)), key=lambda p: (-p[1], p[0]))]
    assert as_discrete(net.variable("c")).states == (*sorted(frequent[:7]), "(other)")
    table = hb.Table({"c": [c if c in frequent[:7] else "(other)" for c in cells], "y": data["y"]})
    counted = naive_bayes(Table_as(table, net), "y")
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, net.potential("c")).table, as_kind(hb.Multinomial, counted.potential("c")).table
    )


def Table_as(table: hb.Table, net: hb.Network) -> hb.Table:
    return hb.Table(table, variables=net.variables)


def test_identifiers_are_left_alone(tmp_path: Path) -> None:
    data = {"id": [f"row {i}" for i in range(60)], "y": ["a", "b"] * 30, "x": ["u", "v", "w"] * 20}
    with pytest.warns(UserWarning, match=r"'id' \(a different value in each row\)"):
        assert {*naive_bayes(hb.scan(write(tmp_path, data)), "y")} == {"x", "y"}


def test_what_needs_all_rows_says_so(tmp_path: Path) -> None:
    scan = hb.scan(write(tmp_path, make_data(100, 8)))
    for name in ("take", "column"):
        with pytest.raises(hb.TableError, match="needs all rows in memory"):
            getattr(scan, name)
    with pytest.raises(hb.TableError, match="read in passes"):
        hb.Table(scan)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "feather"])
def test_other_formats(suffix: str, tmp_path: Path) -> None:
    data = names_of(make_data(400, 9), "y", "a", "k", "x")
    path = tmp_path / f"t.{suffix}"
    hb.Table(data, discrete=["k"]).write(path)
    known = naive_bayes(hb.Table(data, discrete=["k"]), "y", "gaussian")
    assert same(naive_bayes(hb.scan(path, discrete=["k"]), "y", "gaussian"), known)


def test_frames_datasets_and_folders_are_scanned(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    data = names_of(make_data(300, 10), "y", "a", "t")
    known = tan(data, "y")
    (tmp_path / "year=2024").mkdir()
    parquet.write_table(pa.table(data), tmp_path / "year=2024" / "t.parquet")
    for given_data in (data, pa.table(data), dataset.dataset(tmp_path / "year=2024")):
        assert same(tan(hb.scan(given_data), "y"), known)
    folder = hb.scan(tmp_path)
    assert folder.names == ("y", "a", "t", "year")
    assert folder.value_range("year") == (2024.0, 2024.0)
    assert same(tan(folder.drop("year"), "y"), known)


def test_dates_in_text_are_numbers(tmp_path: Path) -> None:
    days = [f"2024-0{1 + i % 9}-1{i % 7}" for i in range(200)]
    scan = hb.scan(write(tmp_path, {"d": days, "y": ["a", "b"] * 100}))
    known = hb.Table({"d": days})
    assert scan.variable("d") == known.variable("d")
    assert scan.value_range("d") == known.value_range("d")


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    pattern = write(tmp_path, {"y": ["a", "b"] * 50})
    scan = hb.scan(pattern)
    assert len(scan) == 100
    write(tmp_path, {"y": ["a", "b", "c", "c"] * 50})
    with pytest.raises(hb.TableError, match="was changed while it was scanned"):
        scan.sample()


def test_damaged_and_absent_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(hb.FormatError, match="not a whole Parquet file"):
        hb.scan(tmp_path / "t.parquet")
    with pytest.raises(FileNotFoundError):
        hb.scan(tmp_path / "none.parquet")
    with pytest.raises(hb.FormatError, match="no file to scan"):
        hb.scan(str(tmp_path / "*.csv"))
    with pytest.raises(hb.TableError, match="no column 'q'"):
        hb.scan({"x": [1.0]}, discrete=["q"])


def test_warnings_are_not_repeated_from_memory(tmp_path: Path) -> None:
    data = make_data(200, 11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hb.fit([("y", "x")], hb.scan(write(tmp_path, data)))


def test_boosting_takes_a_pass_a_round(tmp_path: Path) -> None:
    data = names_of(make_data(600, 12), "y", "a", "k", "t")
    data["y"][7] = data["y"][411] = None
    scan = hb.scan(write(tmp_path, data), discrete=["k"])
    ensemble = hb.boost(scan, "y", rounds=6, random_state=0)
    known = hb.boost(hb.Table(data, discrete=["k"]), "y", rounds=6, random_state=0)
    np.testing.assert_allclose(ensemble.votes, known.votes, rtol=1e-9)
    for mine, yours in zip(ensemble.networks, known.networks, strict=True):
        np.testing.assert_allclose(
            as_kind(hb.Multinomial, mine.potential("a")).table,
            as_kind(hb.Multinomial, yours.potential("a")).table,
            rtol=1e-9,
        )


@pytest.mark.slow
def test_boosting_beyond_the_floor(tmp_path: Path) -> None:
    data = names_of(make_data(300, 13, holes=0.0), "y", "a", "t")
    known = hb.boost(hb.Table(data), "y", rounds=70, random_state=1)
    ensemble = hb.boost(hb.scan(write(tmp_path, data)), "y", rounds=70, random_state=1)
    np.testing.assert_allclose(ensemble.votes[:20], known.votes[:20], rtol=1e-6)


@pytest.mark.parametrize("potentials", ["multinomial", "gaussian"])
def test_expectation_maximization_takes_a_pass_a_step(potentials: str, tmp_path: Path) -> None:
    data = make_data(300, 14, holes=0.2)
    data = names_of(data, "y", "a", "t") if potentials == "multinomial" else names_of(data, "y", "x", "z")
    arcs = [(a, b) for a, b in itertools.pairwise(data)]
    scan = hb.scan(write(tmp_path, data))
    learned = hb.expectation_maximization(arcs, scan, potentials=potentials, tolerance=1e-5)  # type: ignore[arg-type]
    known = hb.expectation_maximization(arcs, hb.Table(data), potentials=potentials, tolerance=1e-5)  # type: ignore[arg-type]
    np.testing.assert_allclose(learned.history, known.history, rtol=1e-9)
    np.testing.assert_allclose(
        learned.network.log_density(hb.Table(data)), known.network.log_density(hb.Table(data)), rtol=1e-7
    )


@pytest.mark.parametrize(
    ("target", "potentials"), [("y", "multinomial"), pytest.param("x", "gaussian", marks=pytest.mark.slow)]
)
def test_attributes_are_selected_by_all_rows(target: str, potentials: str, tmp_path: Path) -> None:
    data = names_of(make_data(400, 15), *("yat" if target == "y" else "xz"))
    rng = np.random.default_rng(0)
    data["noise"] = (rng.choice(["u", "v"], 400) if target == "y" else rng.normal(size=400)).tolist()
    pattern = write(tmp_path, data)
    select = partial(hb.structures.selective_naive_bayes, target=target, potentials=potentials)  # type: ignore[arg-type]
    known = select(hb.Table(data))
    assert "noise" not in known
    assert same(select(hb.scan(pattern)), known)
    # more rows than the sample has
    learned = select(hb.scan(pattern, sample=150))
    assert set(learned) == set(known)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(sources.FileFragment.batches, "__defaults__", (43,))
        assert same(select(hb.scan(pattern, sample=150, backend=pool)), learned)


def test_imputed_scans_are_completed_while_they_are_read(tmp_path: Path) -> None:
    data = make_data(400, 16)
    pattern = write(tmp_path, data)
    scan = hb.scan(pattern, discrete=["k"])
    completed = hb.impute(scan, random_state=0)
    assert not any(completed.missing.values())
    completed.write(tmp_path / "out.parquet")
    table = pa.concat_tables(pa.Table.from_batches([batch]) for batch in completed.batches())
    written = parquet.read_table(tmp_path / "out.parquet")
    assert written.equals(table.cast(written.schema))
    assert [str(one.type) for one in written.schema] == [str(one.type) for one in scan.passes.source.schema]
    for name, values in data.items():
        observed = [place for place, value in enumerate(values) if value is not None]
        assert written[name].take(pa.array(observed)).to_pylist() == [values[place] for place in observed]
    with pytest.raises(hb.TableError, match="not for a scan"):
        hb.impute(scan, indicators=True)
    with pytest.raises(hb.FormatError, match="exists already"):
        completed.write(tmp_path / "out.parquet")


def test_blocks_of_text_keep_observed_cells_of_batches_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        "a,c",
        *(f"{'' if i % 7 == 3 else f'{i % 90 / 10:.2f}'},{'' if i % 5 == 2 else 'xy'[i % 2]}" for i in range(500)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    completed = hb.impute(hb.scan(tmp_path / "t.csv"), random_state=0)
    completed.write(tmp_path / "whole.csv")
    monkeypatch.setattr("hybridbn.tables.backends.batches.BATCH_ROWS", 64)
    completed.write(tmp_path / "out.csv")
    written = (tmp_path / "out.csv").read_text()
    assert written == (tmp_path / "whole.csv").read_text()
    for old, new in zip(lines, written.splitlines(), strict=True):
        assert all(
            after and before in ("", after) for before, after in zip(old.split(","), new.split(","), strict=True)
        )


@pytest.mark.slow
def test_estimators_fit_scans(tmp_path: Path) -> None:
    data = names_of(make_data(400, 17, holes=0.0), "y", "a", "x", "z")
    scan = hb.scan(write(tmp_path, data))
    frame = hb.Table(data).to_pandas()
    model = hb.HybridClassifier(tan, potentials="gaussian").fit(scan, "y")
    known = hb.HybridClassifier(tan, potentials="gaussian").fit(frame.drop(columns="y"), frame["y"])
    np.testing.assert_allclose(model.predict_proba(scan), known.predict_proba(frame.drop(columns="y")), atol=1e-9)
    assert list(model.predict(frame.drop(columns="y"))) == list(known.predict(frame.drop(columns="y")))
    assert list(model.feature_names_in_) == ["a", "x", "z"]
    numbers = hb.HybridRegressor("naive_bayes", potentials="gaussian").fit(scan, "z")
    same_numbers = hb.HybridRegressor("naive_bayes", potentials="gaussian").fit(frame.drop(columns="z"), frame["z"])
    np.testing.assert_allclose(numbers.predict(scan), same_numbers.predict(frame.drop(columns="z")), rtol=1e-7)
    # a sample of all rows holds out the same rows
    np.testing.assert_allclose(numbers.calibration_, same_numbers.calibration_, rtol=1e-6)
    assert len(numbers.calibration_) > 1
    with pytest.raises(hb.TableError, match="y is the name of one of its columns"):
        hb.HybridClassifier().fit(scan, frame["y"])


@pytest.mark.parametrize("discrete", [(), ("i8", "neg", "f32", "u64")])
def test_columns_of_all_types_are_read_as_in_memory(discrete: tuple[str, ...], tmp_path: Path) -> None:
    def leave_holes(values: Sequence[Any]) -> list[Any]:
        return [None if place % 7 == 3 else value for place, value in enumerate(values)]

    n, start = 42, datetime.datetime(2020, 1, 1)
    table = pa.table(
        {
            "u64": pa.array(leave_holes(range(n)), pa.uint64()),
            "decimal": leave_holes([decimal.Decimal(i) / 4 for i in range(n)]),
            "date": leave_holes([start.date() + datetime.timedelta(i) for i in range(n)]),
            "instant": pa.array(
                leave_holes([start + datetime.timedelta(0, 60 * i) for i in range(n)]), pa.timestamp("us", "UTC")
            ),
            "time": leave_holes([datetime.time(i % 24) for i in range(n)]),
            "duration": leave_holes([datetime.timedelta(i) for i in range(n)]),
            "bool": leave_holes([i % 2 == 0 for i in range(n)]),
            "large": pa.array(leave_holes(["a", "b", "c"] * (n // 3)), pa.large_string()),
            "levels": pa.array(leave_holes(["z", "a", "m"] * (n // 3))).dictionary_encode(),
            "days": leave_holes([f"2020-01-{1 + i % 28:02}" for i in range(n)]),
            "f32": pa.array([i / 2 for i in range(n)], pa.float32()),
            "i8": pa.array([i % 5 for i in range(n)], pa.int8()),
            "neg": [i % 5 - 3 for i in range(n)],
            "list": [[1]] * n,
            "nothing": pa.nulls(n),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=9)
    read, reasons = read_rows(parquet.read_table(tmp_path / "t.parquet"), discrete=discrete)
    known = as_kind(hb.Table, read)
    scan, mine = read_rows(hb.scan(tmp_path / "t.parquet", discrete))
    assert {*mine} == {*reasons} == {"list", "nothing"}
    assert scan.variables == known.variables
    assert scan.missing == known.missing
    parts = list(scan.answer(lambda part, first: part))
    for variable in known.variables:
        cells = np.concatenate([part.coded(variable) for part in parts])
        np.testing.assert_array_equal(cells, known.coded(variable))
        np.testing.assert_array_equal(as_kind(hb.Scan, scan).sample().coded(variable), known.coded(variable))
        if isinstance(variable, hb.Continuous):
            assert scan.value_range(variable.name) == known.value_range(variable.name)


def test_what_is_lost_of_rare_states_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "TRACKED", 3)
    first = profiles.ColumnTally(counts={"a": 5, "b": 4, "c": 2}, lost=2)
    second = profiles.ColumnTally(counts={"a": 6, "d": 3, "e": 2}, lost=1)
    both = first + second
    assert (both.counts, both.lost) == ({"a": 9, "b": 2, "d": 1}, 2 + 1 + 2)
