"""What the terminal shows of posteriors and tables."""

from __future__ import annotations

import numpy as np
import pytest
from narrowing import as_continuous

import hybridbn as hb
from hybridbn.commands.printing import Style, draw_posterior

X = hb.Continuous("x")


@pytest.fixture(params=[True, False], ids=["blocks", "ascii"])
def style(request: pytest.FixtureRequest) -> Style:
    style = Style()
    style.blocks, style.colors = request.param, False
    return style


def test_numbers_are_drawn_as_curves(style: Style) -> None:
    mixture = hb.LinearGaussianMixture(X, probabilities=[0.75, 0.25], intercept=[0.0, 10.0], variance=[1.0, 1.0])
    text = draw_posterior("x", hb.Network([mixture]).posterior("x"), 0.9, style)
    head, *curve = text.splitlines()
    assert head.startswith("x  mean 2.5, sd ")
    assert "90% from -1." in head
    assert len(curve) == style.blocks
    if curve:
        levels = [" ▁▂▃▄▅▆▇█".index(sign) for sign in curve[0].removeprefix("  ")]
        trace = as_continuous(hb.Network([mixture]).posterior("x")).trace()
        low, high = trace.x[[0, -1]]
        x = np.linspace(low, high, 40)
        density = 0.75 * np.exp(-0.5 * x * x) + 0.25 * np.exp(-0.5 * (x - 10) ** 2)
        wanted = np.rint(8 * density / density.max()).astype(int)
        assert levels == wanted.tolist()[: len(levels)]
        assert not wanted[len(levels) :].any()


def test_states_are_drawn_as_bars(style: Style) -> None:
    c = hb.Discrete("c", ("no", "yes\x1b", "longer"))
    text = draw_posterior("c", hb.Network([hb.Multinomial(c, table=[0.5, 0.0, 0.5])]).posterior("c"), 0.9, style)
    head, first, second, third = text.splitlines()
    assert head == "c"
    bar = style.draw_bar(0.5)
    assert set(bar) == {"█" if style.blocks else "#"}
    assert len(style.draw_bar(1.0)) == 2 * len(bar)
    assert first.split() == ["no", "50.0%", bar]
    assert "\x1b" not in second
    assert second.split()[-1] == "0.0%"
    assert first.index("50.0%") == third.index("50.0%")
    assert style.draw_bar(float("nan")) == ""


def test_of_many_states_the_most_probable_ones_are_drawn(style: Style) -> None:
    c = hb.Discrete("c", tuple(f"s{i}" for i in range(35)))
    shares = np.where(np.arange(35) < 5, 1.0, 2.0)
    lines = draw_posterior("c", hb.Network([hb.Multinomial(c, table=shares / shares.sum())]).posterior("c"), 0.9, style)
    assert [line.split()[0] for line in lines.splitlines()[1:-1]] == [f"s{i}" for i in range(5, 35)]
    assert lines.splitlines()[-1] == "  ... (35 in all)"


@pytest.mark.parametrize(("encoding", "blocks"), [("utf-8", True), ("ascii", False), ("no such encoding", False)])
def test_blocks_are_shown_where_the_encoding_has_them(
    encoding: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Output:
        def __init__(self) -> None:
            self.encoding = encoding

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdout", Output())
    assert Style().blocks == blocks
