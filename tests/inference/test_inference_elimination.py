"""The elimination core on random sets of factors, against one big sum of products."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import known
from sum_product import NamedTable, sum_product

from hybridbn.inference.elimination import compilers
from hybridbn.inference.elimination import program as programs
from hybridbn.inference.elimination.compilers import compile_program
from hybridbn.inference.elimination.ordering import find_order
from hybridbn.inference.elimination.program import Factor

SETTINGS = settings(max_examples=examples(120), derandomize=True, deadline=None)
ROWS = 3


@pytest.fixture(autouse=True, scope="module", params=["einsum", "matrices"])
def ways_to_multiply(request):
    """Run everything as small tables usually are multiplied, then as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "matrices":
            patch.setattr(programs, "ENOUGH", 0)
            patch.setattr(compilers, "ENOUGH", 0)
        yield


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize(
    ("inputs", "out"),
    [
        ("abc,cZ->abZ", "stacked"),
        ("abc,aZ->bcZ", "first"),
        ("abc,bZ->acZ", "middle"),
        ("abc,bcZ->abZ", "one shared name stays"),
        ("abc,acdZ->dabZ", "more names on the right"),
        ("abZ,bcZ->acZ", "both with rows"),
        ("ab,bc->ca", "none with rows"),
    ],
)
def test_products_as_matrices(inputs, out, rows):
    rng = np.random.default_rng(0)
    sizes = {"a": 21, "b": 22, "c": 23, "d": 5, "Z": rows}
    scopes, result = inputs.split("->")
    arrays = [rng.random([sizes[n] for n in scope]) for scope in scopes.split(",")]
    names = [tuple(scope.replace("Z", "")) for scope in scopes.split(",")]
    with_rows = ["Z" in scope for scope in scopes.split(",")]
    factors = [Factor(n, r, not r) for n, r in zip(names, with_rows, strict=True)]
    program = compile_program(factors, [tuple(result.replace("Z", ""))], sizes)
    expected = np.einsum(inputs, *arrays)
    for _ in range(2):
        (found,) = program.run(dict(enumerate(arrays)))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@st.composite
def factor_sets(draw):
    """Draw sizes, scopes of factors, which of them have rows, which are static, and a seed for their values."""
    names = [f"x{i}" for i in range(draw(st.integers(1, 7)))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    scopes = draw(st.lists(st.lists(st.sampled_from(names), unique=True, max_size=4), min_size=1, max_size=9))
    factors = []
    for scope in scopes:
        rows = draw(st.booleans())
        factors.append(Factor(tuple(scope), rows, not rows and draw(st.booleans())))
    mentioned = sorted({name for scope in scopes for name in scope})
    asked = st.lists(st.sampled_from(mentioned), unique=True, max_size=3) if mentioned else st.just([])
    wanted = draw(st.lists(asked, min_size=1, max_size=4))
    return sizes, factors, [tuple(scope) for scope in wanted], draw(st.integers(0, 2**32 - 1))


def values(factors, sizes, rng, zeros: bool):
    arrays = {}
    for i, factor in enumerate(factors):
        array = rng.random([*(sizes[n] for n in factor.names), *[ROWS] * factor.rows])
        arrays[i] = np.where(rng.random(array.shape) < 0.2, 0.0, array) if zeros else array
    return arrays


def joint(factors, sizes, arrays, combine=np.multiply):
    """Combine all factors into one array over all names, rows last."""
    names = sorted(sizes)
    total = None
    for i, factor in enumerate(factors):
        array = arrays[i] if factor.rows else arrays[i][..., None]
        turn = sorted(range(len(factor.names)), key=lambda k: names.index(factor.names[k]))
        shape = [sizes[n] if n in factor.names else 1 for n in names]
        spread = array.transpose([*turn, len(factor.names)]).reshape([*shape, array.shape[-1]])
        total = spread if total is None else combine(total, spread)
    full = np.broadcast_to(known(total), [*(sizes[n] for n in names), ROWS])
    mentioned = {n for f in factors for n in f.names}
    # a variable that no factor mentions takes no part
    return full[tuple(slice(None) if n in mentioned else 0 for n in names)], [n for n in names if n in mentioned]


def over(full, names, scope, reduce):
    reduced = reduce(full, axis=tuple(i for i, n in enumerate(names) if n not in scope))
    left = [n for n in names if n in scope]
    return np.moveaxis(reduced, [left.index(n) for n in scope], range(len(scope)))


def check(found, exact, scope, tolerance):
    assert found.ndim in (len(scope), len(scope) + 1)
    found = found if found.ndim > len(scope) else found[..., None]
    np.testing.assert_allclose(np.broadcast_to(found, exact.shape), exact, rtol=tolerance, atol=1e-300)


@SETTINGS
@given(factor_sets(), st.booleans())
def test_sums_of_products(case, zeros):
    sizes, factors, scopes, seed = case
    rng = np.random.default_rng(seed)
    program = compile_program(factors, scopes, sizes)
    first = values(factors, sizes, rng, zeros)
    # the second run reuses what was computed of static factors
    second = {i: first[i] if f.static else values([f], sizes, rng, zeros)[0] for i, f in enumerate(factors)}
    for arrays, given_arrays in ((first, first), (second, {i: a for i, a in second.items() if not factors[i].static})):
        full, names = joint(factors, sizes, arrays)
        for scope, found in zip(scopes, program.run(given_arrays), strict=True):
            check(found, over(full, names, scope, np.sum), scope, 1e-12)


@SETTINGS
@given(factor_sets(), st.booleans())
def test_programs_equal_the_loop_of_textbooks(case, zeros):
    sizes, factors, scopes, seed = case
    factors = [Factor(factor.names) for factor in factors]
    arrays = values(factors, sizes, np.random.default_rng(seed), zeros)
    tables = [NamedTable(factor.names, arrays[number]) for number, factor in enumerate(factors)]
    for scope, found in zip(scopes, compile_program(factors, scopes, sizes).run(arrays), strict=True):
        np.testing.assert_allclose(found, sum_product(tables, scope).values, rtol=1e-12, atol=1e-300)
        order = sorted(sizes, reverse=True)
        np.testing.assert_allclose(found, sum_product(tables, scope, order).values, rtol=1e-12, atol=1e-300)


@SETTINGS
@given(factor_sets(), st.booleans(), st.sampled_from([1.0, 1e4]))
def test_logarithms(case, zeros, spread):
    sizes, factors, scopes, seed = case
    rng = np.random.default_rng(seed)
    program = compile_program(factors, scopes, sizes)
    arrays = {i: np.log(a + (0 if zeros else 1e-9)) * spread for i, a in values(factors, sizes, rng, False).items()}
    if zeros:
        arrays = {i: np.where(rng.random(a.shape) < 0.2, -np.inf, a) for i, a in arrays.items()}
    full, names = joint(factors, sizes, arrays, np.add)

    def log_sum(array, axis):
        top = np.max(array, axis=axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(np.sum(np.exp(array - top), axis=axis)) + np.squeeze(top, axis)

    for combine, reduce in (("sum", log_sum), ("max", np.max)):
        for scope, found in zip(scopes, program.run_log(arrays, combine), strict=True):
            exact = over(full, names, scope, reduce)
            found = found if found.ndim > len(scope) else found[..., None]
            found = np.broadcast_to(found, exact.shape)
            assert (np.isneginf(found) == np.isneginf(exact)).all()
            finite = np.isfinite(exact)
            np.testing.assert_allclose(found[finite], exact[finite], rtol=1e-12, atol=1e-10)


def test_the_order_of_the_factors_does_not_matter():
    rng = np.random.default_rng(0)
    sizes = dict.fromkeys("abcde", 3)
    names = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")]
    arrays = [rng.random((3, 3)) for _ in names]
    results = []
    for turn in itertools.islice(itertools.permutations(range(5)), 0, 120, 17):
        program = compile_program([Factor(names[i]) for i in turn], [("b",)], sizes)
        results.append(program.run({k: arrays[i] for k, i in enumerate(turn)})[0])
    np.testing.assert_allclose(results, [results[0]] * len(results), rtol=1e-13)


@pytest.mark.parametrize("length", [2, 200])
def test_long_chains(length):
    """Both as one scope and as all scopes at once; far more names than einsum has letters."""
    rng = np.random.default_rng(1)
    tables = [rng.dirichlet(np.ones(3), size=3) for _ in range(length)]
    sizes = {f"x{i}": 3 for i in range(length + 1)}
    factors = [Factor((f"x{i}", f"x{i + 1}")) for i in range(length)] + [Factor(("x0",))]
    arrays = dict(enumerate([*tables, np.array([0.2, 0.3, 0.5])]))
    forward = [np.array([0.2, 0.3, 0.5])]
    for table in tables:
        forward.append(forward[-1] @ table)
    all_at_once = compile_program(factors, [(f"x{i}",) for i in range(length + 1)], sizes).run(arrays)
    np.testing.assert_allclose(all_at_once, forward, rtol=1e-12)
    (last,) = compile_program(factors, [(f"x{length}",)], sizes).run(arrays)
    np.testing.assert_allclose(last, forward[-1], rtol=1e-12)


def test_orders_are_as_cheap_as_they_can_be():
    """A ring of six has treewidth two; a star is summed from its leaves."""
    ring = [(f"x{i}", f"x{(i + 1) % 6}") for i in range(6)]
    order = find_order(ring, {f"x{i}": 10 for i in range(6)}, [])
    assert order.largest == pytest.approx(1000)
    assert sorted(order.names) == [f"x{i}" for i in range(6)]
    star = [("hub", f"leaf{i}") for i in range(20)]
    sizes = {"hub": 2, **{f"leaf{i}": 2 for i in range(20)}}
    assert find_order(star, sizes, ["leaf0"]).largest == pytest.approx(4)


def test_costs_are_estimated_without_overflow():
    scope = tuple(f"x{i}" for i in range(320))
    order = find_order([scope], dict.fromkeys(scope, 10), [])
    assert order.largest > 1e300
    assert not math.isnan(order.total)
