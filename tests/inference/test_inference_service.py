"""What a long-running program relies on: empty tables, threads, answers that stay true, limits that hold."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.inference import relevance

S = hb.Discrete("s", states=("yes", "no"))
X, Y = hb.Continuous("x"), hb.Continuous("y")
B = hb.Discrete("b", states=("yes", "no"))


def market():
    return hb.Network(
        [
            hb.Multinomial(S, table=[0.3, 0.7]),
            hb.LinearGaussian(X, intercept=5, variance=1),
            hb.LinearGaussian(Y, parents=(S, X), intercept=[10, 20], coefficients=[[-1], [-1]], variance=[1, 1]),
            hb.Softmax(B, parents=(Y,), intercept=[-5, 0], coefficients=[[1], [0]]),
        ]
    )


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("target", ["s", "x", "y", ["s", "x"], ["x", "y"]])
def test_tables_of_few_rows(rows, target):
    net, table = market(), pd.DataFrame({"b": ["yes", None][:rows]}, dtype=object)
    post = net.posterior(target, table)
    assert len(post) == rows
    assert post.log_evidence.shape == (rows,)
    assert len(post[np.zeros(rows, dtype=bool)]) == 0
    if target == "s":
        assert post.probabilities.shape == (rows, 2)
    else:
        assert len(post.mean()) == rows


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_other_questions_of_few_rows(rows):
    net, table = market(), pd.DataFrame({"b": ["yes", None][:rows]}, dtype=object)
    assert net.most_probable(table).shape == (rows, 4)
    assert net.sample(3, 0, table).shape == (3 * rows, 4)
    assert net.log_density(table).shape == (rows,)
    assert all(len(post) == rows for post in net.posteriors(table).values())


def test_completions_have_every_column_and_row():
    table = pd.DataFrame({"s": ["yes", "no"], "x": [1.0, 2.0], "y": [3.0, 4.0], "b": ["yes", "no"]})
    pd.testing.assert_frame_equal(market().most_probable(table), table, check_dtype=False)


def test_threads_that_ask_a_new_question_at_once_agree():
    net = market()
    expected = market().log_evidence({"b": "yes", "x": 4.0})
    relevance.CACHE.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: net.log_evidence({"b": "yes", "x": 4.0}), range(16)))
    assert found == pytest.approx([expected] * 16, abs=1e-12)
    assert net.log_evidence({"b": "yes", "x": 4.0}) == pytest.approx(expected, abs=1e-12)


def test_answers_stay_true_when_the_question_changes():
    net, evidence = market(), {"b": "no"}
    joint, alone = net.posterior(["x", "y"], evidence), net.posterior("x", evidence)
    expected = net.log_evidence(evidence)
    evidence["b"] = "yes"
    net.add(hb.LinearGaussian(X, intercept=0, variance=9))
    assert joint.log_evidence == pytest.approx(expected)
    assert alone.log_evidence == pytest.approx(expected)
    assert joint.marginal("x").mean() == pytest.approx(alone.mean())


def test_joint_posteriors_are_sliced_and_pickled():
    joint = market().posterior(["x", "y"], pd.DataFrame({"b": ["yes", "no", "yes"]}))
    again = pickle.loads(pickle.dumps(joint))
    np.testing.assert_allclose(again[1:].mean(), joint.mean()[1:])
    np.testing.assert_allclose(joint[1].cov(), market().posterior(["x", "y"], {"b": "no"}).cov(), rtol=1e-9)
    assert joint[1].pdf(x=5, y=4) == pytest.approx(joint.pdf(x=5.0, y=4.0)[1])


def test_most_probable_is_refused_before_it_grows_too_wide():
    size = 11
    nodes = {(i, j): hb.Discrete(f"{i},{j}", states=(0, 1)) for i in range(size) for j in range(size)}
    potentials = []
    for (i, j), node in nodes.items():
        parents = [nodes[place] for place in ((i - 1, j), (i, j - 1)) if place in nodes]
        potentials.append(hb.Multinomial(node, parents=parents, table=np.full([2] * (len(parents) + 1), 0.5)))
    net = hb.Network(potentials)
    with pytest.raises(hb.TooWide, match="cells"):
        net.most_probable(max_bytes=6e3)
    with pytest.raises(hb.TooWide, match="cells"):
        net.most_probable(names=["0,0", "10,10"], max_bytes=6e3)


def test_masses_that_are_not_one_count_in_the_evidence():
    third = hb.MTE(hb.Continuous("z", domain=(0, 1)), pieces=[hb.Piece({"z": (0, 1)}, constant=0.9)], normalize=None)
    assert hb.Network([third]).posterior("z").log_evidence == pytest.approx(np.log(0.9))
