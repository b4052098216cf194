"""Every family keeps every promise of the protocol: fixed examples of all of them, and random ones from hypothesis."""

import contract
import numpy as np
import pytest
from contract import CHECKS, Example
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridbn.errors import NetworkError
from hybridbn.potentials.binned import Binned
from hybridbn.potentials.cases import Boxes, Case, Cases
from hybridbn.potentials.density import Density
from hybridbn.potentials.gaussian import LinearGaussian, LinearGaussianMixture
from hybridbn.potentials.kernel import Kernel
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.potentials.softmax import Softmax
from hybridbn.variables import Continuous, Discrete

C = Discrete("c", ("a", "b", "e"))
D = Discrete("d", (0, 1))
X, Y, Z = Continuous("x"), Continuous("y"), Continuous("z")
SHARE = Continuous("share", domain=(0, 1))
RNG = np.random.default_rng(20)
POINTS = RNG.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
LABELS = RNG.integers(0, 2, 40)


def _laplace(d, x, z):
    width = np.where(d == 0, 1.0, 0.3)
    return np.exp(-np.abs(z - 0.0) / width) / (2 * width) + 0 * x


def _bumps(y, x):
    """Two triangles that depend on x by their shares only, so that the breaks are fixed."""
    share = 1 / (1 + np.exp(-np.clip(x, -50, 50)))
    return share * np.clip(1 - np.abs(y - 1), 0, None) + (1 - share) * np.clip(1 - np.abs(y - 4), 0, None)


def _logistic_states(c, x):
    odds = {"a": 1.0, "b": 2.0, "e": 0.0}
    return np.array([odds[state] for state in c.tolist()]) / 3 + 0 * x


EXAMPLES = [
    Example("table root", Multinomial(C, table=[0.5, 0.0, 0.5])),
    Example("table first state impossible", Multinomial(C, table=[0.0, 0.25, 0.75])),
    Example(
        "table",
        Multinomial(C, (D, Discrete("f", ("u", "v", "w"))), table=RNG.dirichlet(np.ones(3), (2, 3))),
        {"d": [0, 1, 1], "f": [2, 0, 1]},
    ),
    Example(
        "gaussian root",
        LinearGaussian(X, intercept=3, variance=4),
        rescaled=lambda a, b: LinearGaussian(X, intercept=3 * a + b, variance=4 * a * a),
    ),
    Example(
        "gaussian",
        LinearGaussian(Y, (X, D, Z), intercept=[1, -2], coefficients=[[0.5, -1.0], [0.0, 3.0]], variance=[0.25, 2.0]),
        {"x": [0.0, 1.5, -40.0], "d": [0, 1, 1], "z": [2.0, -1.0, 300.0]},
        rescaled=lambda a, b: LinearGaussian(
            Y,
            (X, D, Z),
            intercept=[a + b, -2 * a + b],
            coefficients=a * np.array([[0.5, -1.0], [0.0, 3.0]]),
            variance=a * a * np.array([0.25, 2.0]),
        ),
    ),
    Example(
        "mixture of normal densities",
        LinearGaussianMixture(X, probabilities=[0.2, 0.8], intercept=[3, -1], variance=[0.5, 4]),
        rescaled=lambda a, b: LinearGaussianMixture(
            X, probabilities=[0.2, 0.8], intercept=[3 * a + b, b - a], variance=[0.5 * a * a, 4 * a * a]
        ),
    ),
    Example(
        "mixture of regressions",
        LinearGaussianMixture(
            Y,
            (X, D, Z),
            probabilities=[[0.3, 0.7], [1.0, 0.0]],
            intercept=[[1, -2], [0, 3]],
            coefficients=[[[0.5, -1.0], [0.5, 1.0]], [[0.0, 3.0], [1.0, 1.0]]],
            variance=[[0.25, 2.0], [1.0, 0.01]],
        ),
        {"x": [0.0, 1.5, -40.0], "d": [0, 1, 0], "z": [2.0, -1.0, 300.0]},
    ),
    Example(
        "softmax",
        Softmax(
            C,
            (X, D, Z),
            intercept=[[0, 1, -1], [0, 0, 2]],
            coefficients=[[[0, 0], [1, -2], [3, 1]], [[0, 0], [5, 0], [0, 1]]],
        ),
        {"x": [0.0, 2.0, -3.0], "d": [1, 0, 1], "z": [0.5, -1.0, 0.0]},
    ),
    Example(
        "cases",
        Cases(
            Y,
            (D, X),
            [
                Case(LinearGaussian(Y, (X,), intercept=1, coefficients=[0.5], variance=2), low=0.5),
                Case(Kernel(Y, points=POINTS[:, 0], bandwidths=0.3), low=-0.5, high=2.0),
            ],
        ),
        {"d": [0, 1, 1, 0], "x": [0.5, 2.0, -3.0, -1.0]},
    ),
    Example(
        "cases whose parents stand in another order",
        Cases(
            Y,
            (D, Z, X),
            [
                Case(LinearGaussian(Y, (X, Z), intercept=1, coefficients=[0.5, -1.0], variance=2), low=-1.5),
                LinearGaussian(Y, (X,), intercept=-1, coefficients=[2.0], variance=0.3),
            ],
        ),
        {"d": [0, 1, 1, 0], "x": [0.5, 2.0, -3.0, -1.0], "z": [1.0, -2.0, 0.3, 0.4]},
    ),
    Example(
        "cases of tables",
        Cases(
            C,
            (D, Discrete("f", ("u", "v"))),
            [
                Multinomial(C, table=[0.2, 0.3, 0.5]),
                Multinomial(C, (Discrete("f", ("u", "v")),), table=[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]),
            ],
        ),
        {"d": [0, 1, 1], "f": [1, 0, 1]},
    ),
    Example(
        "intervals of a density",
        Binned(
            C,
            density=LinearGaussian(
                Continuous("c"), (X, D), intercept=[0, 2], coefficients=[[0.5], [-1.0]], variance=[1.0, 4.0]
            ),
            edges=[-1.0, 1.5],
        ),
        {"x": [0.0, 2.0, -3.0], "d": [1, 0, 1]},
    ),
    Example("softmax without parents", Softmax(C, intercept=[0, 1, -1], coefficients=np.zeros((3, 0)))),
    Example(
        "kernel root",
        Kernel(X, points=POINTS[:, 0], bandwidths=0.2),
        rescaled=lambda a, b: Kernel(X, points=a * POINTS[:, 0] + b, bandwidths=0.2 * a),
    ),
    Example(
        "kernel",
        Kernel(X, (Y, D, Z), points=POINTS, bandwidths=[0.2, 0.5, 0.1], weights=np.arange(40.0), labels={"d": LABELS}),
        {"y": [0.0, 3.0, -500.0], "d": [0, 1, 0], "z": [0.1, -0.7, 20.0]},
        rescaled=lambda a, b: Kernel(
            X,
            (Y, D, Z),
            points=POINTS * [a, 1, 1] + [b, 0, 0],
            bandwidths=[0.2 * a, 0.5, 0.1],
            weights=np.arange(40.0),
            labels={"d": LABELS},
        ),
    ),
    Example(
        "kernel on a finite domain",
        Kernel(SHARE, (Y,), points=np.column_stack((RNG.beta(0.5, 0.5, 40), POINTS[:, 1])), bandwidths=[0.15, 0.5]),
        {"y": [0.0, 4.0, 1e4]},
    ),
    Example(
        "kernel on a half-line",
        Kernel(
            Continuous("t", (0, np.inf)),
            (D,),
            points=POINTS[:, 0] ** 2,
            bandwidths=[[0.3], [0.1]],
            labels={"d": LABELS},
        ),
        {"d": [0, 1]},
    ),
    Example(
        "kernel of a discrete child",
        Kernel(
            C,
            (X, D, SHARE),
            points=np.column_stack((POINTS[:, 0], RNG.uniform(size=40))),
            bandwidths=RNG.uniform(0.1, 0.5, (2, 3, 2)),
            labels={"c": RNG.integers(0, 2, 40), "d": LABELS},
        ),
        {"x": [0.0, 2.0, -300.0], "d": [1, 0, 1], "share": [0.5, 0.0, 1.0]},
    ),
    Example(
        "density",
        Density(Z, (D, X), function=_laplace, breaks=[0.0], support=(-45, 45)),
        {"d": [0, 1], "x": [0.0, 3.0]},
        saved=False,
    ),
    Example(
        "density with parents",
        Density(Y, (X,), function=_bumps, breaks={"y": [0, 1, 2, 3, 4, 5]}, support=(0, 5)),
        {"x": [0.0, 3.0, -100.0]},
        saved=False,
    ),
    Example(
        "boxes",
        Boxes(
            C,
            (X, D, Z),
            [
                [[-np.inf, 1.0], [1.0, np.inf], [-2.0, 3.0]],
                [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]],
                [[-1.0, 1.0], [-np.inf, 1.0], [0.0, 1.0]],
            ],
            weights=[1, 2, 1],
        ),
        # in one box, in two, and in none
        {"x": [0.0, 1.0, 5.0, 1.0], "d": [1, 0, 1, 0], "z": [0.5, 0.5, 0.5, 7.0]},
    ),
    Example("density of a discrete child", Density(C, (X,), function=_logistic_states), {"x": [0.0, 7.0]}, saved=False),
]


def _mte_examples():
    try:
        from hybridbn.potentials.mte import MTE, Piece
    except ImportError:  # written elsewhere
        return []
    pieces = [Piece({"y": (0, 1)}, terms=[(1, {"y": 1})]), Piece({"y": (1, 3)}, constant=0.5)]
    conditional = [
        Piece({"x": (0, 1), "y": (0, 2)}, {"d": 0}, constant=0.5),
        Piece({"x": (1, 5), "y": (0, 2)}, {"d": 0}, terms=[(1.0, {"y": -1.0})]),
        Piece({"x": (0, 5), "y": (0, 2)}, {"d": 1}, terms=[(1.0, {"y": 2.0})]),
    ]
    discrete = [
        Piece({"x": (-1, 1)}, {"d": 0}, constant=0.5, terms=[(0.1, {"x": 1.0})]),
        Piece({"x": (-1, 1)}, {"d": 1}, constant=0.5, terms=[(-0.1, {"x": 1.0})]),
    ]
    return [
        Example("mte root", MTE(Y, pieces=pieces, normalize=True)),
        Example(
            "mte",
            MTE(Y, (X, D), pieces=conditional, normalize=True),
            {"x": [0.5, 4.0, 2.0], "d": [0, 0, 1]},
            anywhere=False,
        ),
        Example("mte of a discrete child", MTE(D, (X,), pieces=discrete), {"x": [0.5, -0.9]}, anywhere=False),
    ]


EXAMPLES += _mte_examples()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_family_keeps_its_promise(example, check):
    check(example)


PARAMETERS = {
    "table": 2 * 3 * 2,
    "gaussian": 2 + 4 + 2,
    "mixture of regressions": 2 * (1 + 2 + 4 + 2),
    "softmax": 2 * (2 + 4),
    "boxes": 4 + 2 + 3,
    "density": 0,
    "cases of tables": 2 + 4,
}
"""The numbers that are free."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_free_parameters_are_counted(name) -> None:
    (potential,) = (example.potential for example in EXAMPLES if example.name == name)
    assert potential.free_parameters() == PARAMETERS[name]


QUICK = [
    contract.check_mass_is_one,
    contract.check_axes_agree,
    contract.check_masses,
    contract.check_support,
    contract.check_landmarks,
    contract.check_ppf,
    contract.check_saved,
    contract.check_far,
]
numbers = st.floats(-50, 50, allow_nan=False)
widths = st.floats(0.01, 20)


@st.composite
def tables(draw):
    states, parents = draw(st.integers(1, 5)), draw(st.lists(st.integers(1, 3), max_size=2))
    child = Discrete("c", tuple(range(states)))
    variables = [Discrete(f"d{i}", tuple(range(size))) for i, size in enumerate(parents)]
    weights = draw(
        st.lists(st.floats(0, 10), min_size=states * int(np.prod(parents)), max_size=states * int(np.prod(parents)))
    )
    weights = np.reshape(weights, (*parents, states))
    weights[..., draw(st.integers(0, states - 1))] += 0.5
    given = {f"d{i}": [draw(st.integers(0, size - 1)) for _ in range(2)] for i, size in enumerate(parents)}
    return Example("table", Multinomial(child, variables, table=weights, normalize=True), given)


@st.composite
def gaussians(draw):
    intercept = draw(st.lists(numbers, min_size=2, max_size=2))
    slopes = draw(st.lists(st.floats(-5, 5), min_size=4, max_size=4))
    variances = draw(st.lists(widths, min_size=2, max_size=2))
    potential = LinearGaussian(
        Y, (X, D, Z), intercept=intercept, coefficients=np.reshape(slopes, (2, 2)), variance=variances
    )
    return Example("gaussian", potential, {name: [draw(numbers) for _ in "ab"] for name in "xz"} | {"d": [0, 1]})


@st.composite
def softmaxes(draw):
    intercept = draw(st.lists(numbers, min_size=3, max_size=3))
    slopes = draw(st.lists(numbers, min_size=6, max_size=6))
    potential = Softmax(C, (X, Z), intercept=intercept, coefficients=np.reshape(slopes, (3, 2)))
    return Example("softmax", potential, {name: [draw(numbers) for _ in "ab"] for name in "xz"})


@st.composite
def kernels(draw):
    count = draw(st.integers(2, 12))
    column = st.lists(numbers, min_size=count, max_size=count)
    labels = [0, 1, *(draw(st.integers(0, 1)) for _ in range(count - 2))]
    potential = Kernel(
        X,
        (Z, D),
        points=np.column_stack((draw(column), draw(column))),
        bandwidths=[draw(st.floats(0.5, 20)), draw(widths)],
        weights=draw(st.lists(st.floats(0.1, 5), min_size=count, max_size=count)),
        labels={"d": labels},
    )
    return Example("kernel", potential, {"z": [draw(numbers) for _ in "ab"], "d": [0, 1]})


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(st.one_of(tables(), gaussians(), softmaxes(), kernels()))
def test_random_potentials_keep_the_promises(example):
    for check in QUICK:
        check(example)


@pytest.mark.parametrize("parents", [(), (X,), (X, D)])
def test_cases_are_chosen_by_a_discrete_parent(parents) -> None:
    with pytest.raises(NetworkError, match="'y': the first parent of its Cases must be discrete"):
        Cases(Y, parents, [LinearGaussian(Y, intercept=0, variance=1)] * 2)
