"""The explorer's answers, its server's doors, its pages and its verb, without a browser."""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import re
import stat
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete
from scipy.integrate import trapezoid

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.explorer import page as pages
from hybridbn.explorer.page import MOST_BODY, ExplorerServer, make_page, read_module
from hybridbn.explorer.responder import Responder, list_findings, read_case
from hybridbn.pictures.chart import SERIES

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><script>alert(1)</script>"


def make_tables() -> hb.Network:
    rain, wet = hb.Discrete("rain", ("no", "yes")), hb.Discrete("wet", ("no", "a bit", HOSTILE))
    sprinkler = hb.Discrete("sprinkler", (1, "1", 2))
    return hb.Network(
        [
            hb.Multinomial(rain, table=[0.7, 0.3]),
            hb.Multinomial(sprinkler, parents=(rain,), table=[[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]),
            hb.Multinomial(
                wet,
                parents=(rain, sprinkler),
                table=[
                    [[1.0, 0.0, 0.0], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]],
                    [[0.1, 0.5, 0.4], [0.1, 0.4, 0.5], [0, 0.1, 0.9]],
                ],
            ),
        ]
    )


def make_mixed() -> hb.Network:
    sick, dose = hb.Discrete("sick", ("no", "yes")), hb.Continuous("dose")
    fever = hb.Continuous("<fever>")
    return hb.Network(
        [
            hb.Multinomial(sick, table=[0.8, 0.2]),
            hb.LinearGaussian(dose, parents=(sick,), intercept=[1, 3], variance=[1, 0.5]),
            hb.LinearGaussian(
                fever, parents=(sick, dose), intercept=[37, 39], coefficients=[[0.0], [-0.3]], variance=[0.1, 0.4]
            ),
        ]
    )


def ask(network: hb.Network, question: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = Responder(network, **options).answer({"id": "q", **question})
    assert answer.pop("id") == "q"
    json.dumps(answer, allow_nan=False)
    return answer


# -- answers ----------------------------------------------------------------------------------------------------------

CASES = [
    ([{"node": 0, "state": 1}], {"sick": "yes"}, {}),
    ([{"node": 1, "value": 2.5}, {"node": 0, "weights": [1, 3]}], {"dose": 2.5, "sick": {"no": 1, "yes": 3}}, {}),
    ([{"node": 1, "between": [None, 2]}], {"dose": hb.Interval(high=2)}, {}),
    ([{"node": 2, "value": 38}, {"node": 1, "value": 2, "set": True}], {"<fever>": 38}, {"dose": 2}),
    ([{"node": 0, "states": [0, 1]}, {"node": 0 + 2, "between": [37, 38]}], {"<fever>": hb.Interval(37, 38)}, {}),
]


@pytest.mark.parametrize(("findings", "evidence", "settings"), CASES)
def test_beliefs_are_posteriors(findings: list[Any], evidence: dict[str, Any], settings: dict[str, Any]) -> None:
    network = make_mixed()
    (answer,) = ask(network, {"ask": "beliefs", "cases": [findings]})["cases"]
    mutilated = network.do(settings) if settings else network
    wanted = mutilated.posteriors(evidence)
    for belief, name in zip(answer["beliefs"], network, strict=True):
        if belief is None:
            assert name in settings or not isinstance(evidence[name], dict | hb.Interval)
        elif "p" in belief:
            np.testing.assert_allclose(belief["p"], as_discrete(wanted[name]).probabilities, atol=1e-7)
        else:
            np.testing.assert_allclose(
                [belief["mean"], belief["sd"]], [wanted[name].mean(), wanted[name].std()], atol=1e-6
            )
            np.testing.assert_allclose(trapezoid(belief["y"], belief["x"]), 1, atol=0.01)
    assert answer["log_evidence"] == pytest.approx(mutilated.log_evidence(evidence), abs=1e-7)


def test_cases_of_one_question_are_answered_together_and_alone_alike() -> None:
    cases = [CASES[0][0], CASES[3][0], [{"node": 1, "value": 0.5}], []]
    together = ask(make_mixed(), {"ask": "beliefs", "cases": cases})["cases"]
    for findings, answer in zip(cases, together, strict=True):
        (alone,) = ask(make_mixed(), {"ask": "beliefs", "cases": [findings]})["cases"]
        assert answer["log_evidence"] == pytest.approx(alone["log_evidence"], abs=1e-6)
        for a, b in zip(answer["beliefs"], alone["beliefs"], strict=True):
            assert (a is None) == (b is None)
            for key in ("p", "q") if a else ():
                np.testing.assert_allclose(a.get(key, 0), b.get(key, 0), atol=1e-5)


def test_a_measured_number_is_soft_evidence() -> None:
    x, y = hb.Continuous("x"), hb.Continuous("y")
    network = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0, variance=1),
            hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[1], variance=1e-12),
        ]
    )
    (answer,) = ask(network, {"ask": "beliefs", "cases": [[{"node": 0, "about": [3, 0.5]}]]})["cases"]
    assert answer["beliefs"][0]["mean"] == pytest.approx(3 * 1 / 1.25, abs=1e-6)
    assert answer["beliefs"][0]["sd"] == pytest.approx(math.sqrt(0.2), abs=1e-6)


def test_weights_of_evidence_add_up() -> None:
    case = [{"node": 2, "value": 38.5}, {"node": 1, "between": [2, None]}]
    answer = ask(make_mixed(), {"ask": "why", "case": case, "node": 0, "state": 1})
    assert answer["prior"] + sum(step["weight"] for step in answer["steps"]) == pytest.approx(answer["log_odds"])
    posterior = make_mixed().posterior("sick", {"<fever>": 38.5, "dose": hb.Interval(2)})
    assert answer["probability"] == pytest.approx(posterior["yes"], abs=1e-7)
    means = ask(make_mixed(), {"ask": "why", "case": [{"node": 0, "state": 1}], "node": 1})
    assert [round(step["mean"], 6) for step in means["steps"]] == [3]
    certain = ask(make_tables(), {"ask": "why", "case": [{"node": 0, "state": 1}], "node": 0, "state": 1})
    assert certain["steps"] == []


def test_next_and_probable_ask_the_network() -> None:
    network = make_tables()
    ranks = ask(network, {"ask": "next", "case": [{"node": 1, "state": 0}], "node": 2})["ranks"]
    wanted = network.value_of_information("wet", {"sprinkler": 1})
    assert ranks[0]["information"] == pytest.approx(wanted["information"].iloc[0])
    values = ask(network, {"ask": "probable", "case": [{"node": 2, "state": 2}]})["values"]
    best = network.most_probable({"wet": HOSTILE})
    assert values == list_findings(network, {name: best[name] for name in ("rain", "sprinkler")})


def test_what_is_set_counts_in_every_question() -> None:
    """A sprinkler that was turned on tells nothing of the rain, which one that is seen to be on does."""
    network = make_tables()
    settings, evidence = {"sprinkler": "1"}, {"wet": "a bit"}
    case = [{"node": 1, "state": 1, "set": True}, {"node": 2, "state": 1}]
    turned_on = network.do(settings)
    why = ask(network, {"ask": "why", "case": case, "node": 0, "state": 1})
    assert why["probability"] == pytest.approx(turned_on.posterior("rain", evidence)["yes"], abs=1e-9)
    assert why["probability"] != pytest.approx(network.posterior("rain", settings | evidence)["yes"], abs=1e-2)
    assert why["prior"] + sum(step["weight"] for step in why["steps"]) == pytest.approx(why["log_odds"])
    ranks = ask(network, {"ask": "next", "case": case[:1], "node": 0})["ranks"]
    wanted = turned_on.value_of_information("rain")
    assert ranks[0]["information"] == pytest.approx(wanted["information"].max())
    assert ranks[0]["information"] != pytest.approx(
        network.value_of_information("rain", settings)["information"].max(), abs=1e-3
    )
    mixed = make_mixed()
    seen, done = ([{"node": 1, "value": 5.0, "set": is_set}] for is_set in (False, True))
    best = [ask(mixed, {"ask": "probable", "case": findings})["values"] for findings in (seen, done)]
    expected = mixed.do(dose=5.0).most_probable()
    assert best[1] == list_findings(mixed, {name: expected[name] for name in ("sick", "<fever>")})
    assert best[0] != best[1]


def test_rows_of_a_table_become_findings() -> None:
    data = {"sick": ["yes", None], "dose": [1.5, float("nan")], "other": [1, 2]}
    options = {"data": data}
    assert Responder(make_mixed(), data).row_count == 2
    assert ask(make_mixed(), {"ask": "row", "row": 0}, **options) == {
        "case": [{"node": 0, "state": 1}, {"node": 1, "value": 1.5}]
    }
    assert ask(make_mixed(), {"ask": "row", "row": 1}, **options) == {"case": []}
    assert "rows are numbered from 0 to 1" in ask(make_mixed(), {"ask": "row", "row": 2}, **options)["error"]
    with pytest.raises(hb.TableError, match="no column of the table is a node"):
        Responder(make_mixed(), {"other": [1]})


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"ask": "beliefs", "cases": []}, "1 to 16 cases"),
        ({"ask": "beliefs", "cases": [[{"node": True, "state": 0}]]}, "names node True"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "state": 2}]]}, "no state 2"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "value": 2}]]}, "'sick' has one of state, states, weights"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "state": 0, "states": [1]}]]}, "has one of"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "weights": [0, 0]}]]}, "one of them positive"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "weights": [1]}]]}, "1 weights"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "states": []}]]}, "must not be empty"),
        ({"ask": "beliefs", "cases": [[{"node": 1, "value": float("nan")}]]}, "finite number"),
        ({"ask": "beliefs", "cases": [[{"node": 1, "value": "1"}]]}, "finite number"),
        ({"ask": "beliefs", "cases": [[{"node": 1, "between": [3, 2]}]]}, "low < high"),
        ({"ask": "beliefs", "cases": [[{"node": 1, "about": [3, 0]}]]}, "positive standard deviation"),
        ({"ask": "beliefs", "cases": [[{"node": 1, "between": [1, 2], "set": True}]]}, "can be set to one value only"),
        ({"ask": "beliefs", "cases": [[{"node": 0, "state": 0}, {"node": 0, "state": 1}]]}, "two findings"),
        ({"ask": "why", "case": [], "node": 0}, "names state None"),
        ({"ask": "row", "row": 0}, "no table"),
        ({"ask": "__init__"}, "no question"),
        ({"ask": ["beliefs"]}, "no question"),
    ],
)
def test_bad_questions_are_refused(question: dict[str, Any], words: str) -> None:
    assert words in ask(make_mixed(), question)["error"]


@pytest.mark.parametrize("question", [None, [], "x", 3, {}, {"id": {}, "ask": "beliefs"}])
def test_what_is_no_question_is_refused(question: Any) -> None:
    assert "error" in Responder(make_tables()).answer(question)


def test_contradictions_are_told_for_each_case() -> None:
    impossible = [{"node": 0, "state": 0}, {"node": 1, "state": 0}, {"node": 2, "state": 2}]
    for cases in ([impossible], [impossible, []]):
        answers = ask(make_tables(), {"ask": "beliefs", "cases": cases})["cases"]
        assert answers[0]["impossible"]
        assert all("beliefs" in answer for answer in answers[1:])
    soft = [{"node": 0, "weights": [1, 0]}, *impossible[1:]]
    assert ask(make_tables(), {"ask": "probable", "case": soft})["impossible"]


def test_states_that_look_alike_have_different_labels() -> None:
    document = Responder(make_tables()).describe()
    assert document["nodes"][1]["states"] == ["1", "'1'", "2"]


def test_evidence_survives_the_way_to_the_page_and_back() -> None:
    network = make_mixed()
    evidence = {"dose": hb.Interval(1, 2), "sick": {"yes": 0.5, "no": 1.0}, "<fever>": 38.0}
    assert read_case(network, list_findings(network, evidence)).evidence == evidence
    assert list_findings(network, {"dose": None}) == []
    with pytest.raises(hb.TableError, match="values and intervals"):
        list_findings(network, {"dose": lambda x: x})


def test_factors_of_a_markov_network_are_known_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    path.write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n 1 2 3 4\n")
    network = hb.read_network(path)
    document = Responder(network).describe()
    assert [document["nodes"][finding["node"]]["name"] for finding in document["given"]] == list(
        network.graph["factors"]
    )


def test_a_neighborhood_has_the_node_and_what_is_near() -> None:
    names = [hb.Discrete(f"x{i}", ("a", "b")) for i in range(70)]
    network = hb.Network(
        [hb.Multinomial(names[0], table=[0.5, 0.5])]
        + [hb.Multinomial(c, parents=(p,), table=[[0.9, 0.1], [0.2, 0.8]]) for p, c in pairwise(names)]
    )
    responder = Responder(network)
    assert not responder.describe()["boxes"]
    layout = responder.answer({"id": 1, "ask": "neighborhood", "node": 30})["layout"]
    assert {node for node, _, _ in layout["nodes"]} == {28, 29, 30, 31}
    held = read_held(make_page(responder))
    assert held["neighborhoods"][30] == layout
    assert len(held["neighborhoods"]) == 70
    assert "neighborhoods" not in read_held(make_page(Responder(make_tables())))


# -- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ExplorerServer]:
    with ExplorerServer(Responder(make_tables())) as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


def request(
    server: ExplorerServer, method: str, path: str, body: bytes | None = None, **headers: str | None
) -> tuple[int, dict[str, str], bytes]:
    named = {"Host": server.hosts[0], "Content-Type": "application/json" if body is not None else None}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if body is not None and "Content-Length" not in named:
        named["Content-Length"] = str(len(body))
    for name, value in named.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    answer = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return answer


QUESTION = json.dumps({"id": 1, "ask": "beliefs", "cases": [[{"node": 0, "state": 1}]]}).encode()


def cookie_of(server: ExplorerServer) -> str:
    return f"other=1; hybridbn-explorer={server.token}"


def test_server_answers_who_holds_the_cookie(server: ExplorerServer) -> None:
    base, held = f"/{server.folder}/", {"Cookie": cookie_of(server)}
    status, headers, page = request(server, "GET", base, None, **held)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert not re.search(rb"<script(?![^>]* src=)", page)
    assert request(server, "GET", f"{base}explorer.js", None, **held)[2].decode() == read_module()
    assert json.loads(request(server, "GET", f"{base}document", None, **held)[2])["nodes"][0]["name"] == "rain"
    same = {"Origin": f"http://{server.hosts[0]}", "Sec_Fetch_Site": "same-origin", **held}
    status, _, body = request(server, "POST", f"{base}ask", QUESTION, **same)
    assert status == 200
    assert json.loads(body)["cases"][0]["beliefs"][1]["p"] == pytest.approx([0.8, 0.1, 0.1])


ELSEWHERE = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document", "Sec_Fetch_Mode": "navigate"}


@pytest.mark.parametrize("headers", [{}, ELSEWHERE])
def test_an_address_gives_the_cookie_once(server: ExplorerServer, headers: dict[str, str]) -> None:
    path, other = (server.address.removeprefix(f"http://{server.hosts[0]}") for _ in range(2))
    assert path != other
    assert server.token not in path
    status, answered, body = request(server, "GET", path, None, **headers)
    # a redirection that began in a file would lose the cookie
    assert status == (200 if headers else 303)
    assert answered.get("Location", answered.get("Refresh", "").removeprefix("0; url=")) == f"/{server.folder}/"
    cookie, *attributes = answered["Set-Cookie"].split("; ")
    assert (cookie, body) == (f"hybridbn-explorer={server.token}", b"")
    assert {*attributes} == {f"Path=/{server.folder}/", "HttpOnly", "SameSite=Strict"}
    status, answered, _ = request(server, "GET", path, None, **headers)
    assert (status, answered.get("Set-Cookie")) == (403, None)
    # whoever holds the cookie may go back
    assert request(server, "GET", path, Cookie=cookie)[0] == 303
    assert request(server, "GET", other)[0] == 303


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/", None, {}, 404),
        ("GET", "/wrong/", None, {}, 404),
        ("GET", "/%C3%A4/", None, {}, 404),
        ("GET", "*/..", None, {}, 404),
        ("GET", "*/../../etc/passwd", None, {}, 404),
        ("GET", "*/explorer.js?x", None, {}, 404),
        ("GET", "*/page.py", None, {}, 404),
        ("GET", "*/open/", None, {"Cookie": None}, 403),
        ("GET", "*/open/%C3%A4", None, {"Cookie": "hybridbn-explorer="}, 403),
        ("GET", "*/", None, {"Cookie": None}, 403),
        ("GET", "*/document", None, {"Cookie": "hybridbn-explorer=wrong; \xe4"}, 403),
        ("POST", "*/ask", QUESTION, {"Cookie": None}, 403),
        ("GET", "*/ask", None, {}, 405),
        ("GET", "*/", None, {"Host": "evil.example"}, 403),
        ("GET", "*/", None, {"Host": "127.0.0.1"}, 403),
        ("GET", "*/", None, {"Host": None}, 403),
        ("GET", "*/", None, {"Origin": "http://evil.example"}, 403),
        ("GET", "*/", None, {"Origin": "null"}, 403),
        ("GET", "*/explorer.js", None, {"Sec_Fetch_Site": "cross-site"}, 403),
        ("GET", "*/document", None, {"Sec_Fetch_Site": "same-site"}, 403),
        ("POST", "*/ask", QUESTION, {"Origin": "http://evil.example"}, 403),
        ("POST", "/wrong/ask", QUESTION, {}, 404),
        ("POST", "*/", QUESTION, {}, 405),
        ("POST", "*/other", QUESTION, {}, 404),
        ("POST", "*/ask", QUESTION, {"Content_Type": "text/plain"}, 415),
        ("POST", "*/ask", QUESTION, {"Content_Type": None}, 415),
        ("POST", "*/ask", b"", {"Content_Length": str(MOST_BODY + 1)}, 413),
        ("POST", "*/ask", b"", {"Content_Length": "9" * 40}, 413),
        ("POST", "*/ask", b"", {"Content_Length": "-1"}, 411),
        ("POST", "*/ask", b"0\r\n\r\n", {"Content_Length": None, "Transfer_Encoding": "chunked"}, 411),
        ("POST", "*/ask", b"{", {}, 400),
        ("POST", "*/ask", b"\xff", {}, 400),
        ("POST", "*/ask", b"[" * 100_000, {}, 400),
        ("OPTIONS", "*/ask", None, {"Origin": "http://evil.example"}, 501),
        ("DELETE", "*/", None, {}, 501),
    ],
)
def test_server_refuses_everything_else(
    server: ExplorerServer, method: str, path: str, body: bytes | None, headers: dict[str, Any], status: int
) -> None:
    path = path.replace("*", f"/{server.folder}", 1)
    answer = request(server, method, path, body, **{"Cookie": cookie_of(server), **headers})
    assert answer[0] == status
    assert not any(name.lower().startswith("access-control") for name in answer[1])
    assert server.token.encode() not in answer[2]


def test_links_to_the_page_may_be_followed_from_elsewhere(server: ExplorerServer) -> None:
    headers = {"Cookie": cookie_of(server), **ELSEWHERE}
    assert request(server, "GET", f"/{server.folder}/", None, **headers)[0] == 200
    assert request(server, "GET", "/wrong/", None, **headers)[0] == 404
    assert request(server, "POST", f"/{server.folder}/ask", QUESTION, **headers)[0] == 403


def test_server_listens_on_this_computer_alone(server: ExplorerServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert len(server.token) >= 32


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_verb_hands_the_address_over_in_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tables().save(tmp_path / "model.hbn")
    seen: dict[str, Any] = {}
    opened = threading.Event()

    def open_browser(address: str) -> None:
        path = Path(address.removeprefix("file://"))
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)]
        seen.update(path=path, modes=modes, text=path.read_text())
        opened.set()

    def serve(server: ExplorerServer) -> None:
        # the browser may be one that returns only when it is closed
        assert opened.wait(20)
        key = re.search(r"url=http://[^/]*/[^/]*/open/([^\"]*)", seen["text"])
        seen["admitted"] = key is not None and server.admits(key[1])
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", open_browser)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(ExplorerServer, "serve_forever", serve)
    assert run(["explore", str(tmp_path / "model.hbn")]) == 0
    assert seen["modes"] == [0o600, 0o700]
    assert seen["admitted"]
    assert not seen["path"].parent.exists()
    printed = capsys.readouterr().out.strip()
    assert printed.startswith("http://127.0.0.1:")
    assert printed not in seen["text"]


# -- pages and the verb -----------------------------------------------------------------------------------------------


def read_held(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="hybridbn-document">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1]))


def test_page_of_tables_holds_the_tables() -> None:
    page = make_page(Responder(make_tables(), title=HOSTILE))
    held = read_held(page)
    assert held["nodes"][2]["states"][2] == HOSTILE
    assert page.count("<script") == 2
    assert "lookups" not in held
    assert len(held["tables"]["values"]) == 3
    assert {node for clique in held["tables"]["cliques"] for node in clique["nodes"]} == {0, 1, 2}


def test_page_of_others_holds_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_mixed()
    held = read_held(make_page(Responder(network, {"dose": [1.25], "sick": ["no"]})))
    lookups = held["lookups"]
    assert len(lookups["findings"]) == 2 + 9 + 9
    assert len(lookups["cases"]) == 1 + 20 + 2 * 9 + 2 * 9 + 9 * 9 + 2 * 9 * 9
    numbers = np.frombuffer(base64.b64decode(lookups["values"])).reshape(len(lookups["cases"]) + 1, -1)
    assert "every 2 together, every 3 together" in held["about"]
    for case, row in list(zip(lookups["cases"], numbers, strict=False))[::13]:
        findings = [lookups["findings"][i] for i in case]
        evidence = read_case(network, findings).evidence
        wanted = network.posteriors(evidence)
        assert row[0] == pytest.approx(network.log_evidence(evidence), abs=1e-6)
        if "sick" in wanted:
            np.testing.assert_allclose(row[1:3], as_discrete(wanted["sick"]).probabilities, atol=1e-6)
        if "<fever>" in wanted:
            fever = wanted["<fever>"]
            np.testing.assert_allclose(row[14:17], [fever.mean(), fever.std(), fever.quantile(0.02)], atol=1e-6)
    np.testing.assert_allclose(
        numbers[-1][14], network.posterior("<fever>", {"dose": 1.25, "sick": "no"}).mean(), atol=1e-6
    )
    # where there is less room there are fewer pairs, and where there is none an error
    monkeypatch.setattr(pages, "MOST_ANSWERS", 60)
    held = read_held(make_page(Responder(network)))
    assert "2 together in 2 of 3 groups" in held["about"]
    monkeypatch.setattr(pages, "MOST_ANSWERS", 20)
    with pytest.raises(hb.TooWide, match="hybridbn explore"):
        make_page(Responder(network))


def test_answers_of_a_page_tell_nothing_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the pairs are impossible."""
    rash = hb.Discrete("rash", ("no", "yes"))
    network = make_mixed()
    network.add(hb.Multinomial(rash, (as_discrete(network.variable("sick")),), table=[[1.0, 0.0], [0.5, 0.5]]))
    held, numbers = [], []
    for block in (3, 10**6):
        monkeypatch.setattr(pages, "BLOCK", block)
        lookups = read_held(make_page(Responder(network)))["lookups"]
        held.append(lookups["cases"])
        numbers.append(np.frombuffer(base64.b64decode(lookups["values"])).reshape(len(lookups["cases"]), -1))
    assert held[0] == held[1]
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-6)
    impossible = np.isneginf(numbers[0][:, 0])
    assert 0 < impossible.sum() < len(impossible)
    assert np.isnan(numbers[0][impossible, 1:]).all()


def test_page_holds_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 2)
    responder = Responder(make_tables(), {"rain": ["no", "yes", "no"]})
    assert len(read_held(make_page(responder))["rowFindings"]) == 2


def test_page_asks_for_no_state_of_probability_zero() -> None:
    variable = hb.Discrete("c", ("a", "b", "c"))
    held = pages._list_findings(variable, 7, {"p": [0.8, 0.0, 0.2]})
    assert held == [{"node": 7, "state": 0}, {"node": 7, "state": 2}]


def test_module_is_small_and_may_stand_in_a_page() -> None:
    module = read_module()
    assert len(module.encode()) <= 120_000
    assert "</script" not in module.lower()
    assert "<!--" not in module
    assert re.search(r"export\s*\{[^}]*\brender\b", module)
    # names become text nodes, never markup
    for path in (ROOT / "hybridbn" / "explorer" / "source").glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text())


def test_colors_are_those_of_all_pictures() -> None:
    assert SERIES[0] in read_module()
    assert SERIES[1] in read_module()


def test_lock_file_names_no_package_host() -> None:
    lock = (ROOT / "hybridbn" / "explorer" / "source" / "package-lock.json").read_text()
    assert "http" not in lock
    assert "resolved" not in lock
    assert all("integrity" in entry for name, entry in json.loads(lock)["packages"].items() if name)


def test_verb_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_mixed().save(tmp_path / "model.hbn")
    (tmp_path / "d.csv").write_text("sick,dose\nyes,2\n,\n")
    (tmp_path / "bad.csv").write_text("sick\nperhaps\n")
    model, out = str(tmp_path / "model.hbn"), tmp_path / "out.html"
    assert run(["explore", model, "sick=yes", "--data", str(tmp_path / "d.csv"), "--html", str(out)]) == 0
    held = read_held(out.read_text())
    assert held["title"] == "model"
    assert held["start"] == [{"node": 0, "state": 1}]
    assert held["rowFindings"] == [[{"node": 0, "state": 1}, {"node": 1, "value": 2.0}], []]
    assert out.stat().st_size < 5_000_000
    capsys.readouterr()
    assert run(["explore", model, "sickk=yes", "--html", str(out)]) == 2
    assert "did you mean 'sick'" in capsys.readouterr().err
    assert run(["explore", model, "--data", str(tmp_path / "bad.csv"), "--html", str(out)]) == 2
    assert "perhaps" in capsys.readouterr().err
    assert run(["explore", model, "--port", "99999"]) == 2
    assert "65535" in capsys.readouterr().err
    with ExplorerServer(Responder(make_tables())) as taken:
        assert run(["explore", model, "--port", str(taken.server_port)]) == 2
    assert "a free one is taken" in capsys.readouterr().err
    assert run(["explore", str(tmp_path / "none.hbn")]) == 2


def test_widget_answers_messages_and_keeps_a_picture() -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    network = make_tables()
    widget = network.explore({"rain": "yes"}, {"wet": ["no"]})
    assert widget.evidence == {"rain": "yes"}
    assert widget.document["rows"] == 1
    sent: list[Any] = []
    widget.send = sent.append
    widget._handle_custom_msg({"id": "a-1", "ask": "beliefs", "cases": [widget.findings]}, [])
    assert sent[0]["id"] == "a-1"
    assert sent[0]["cases"][0]["beliefs"][1]["p"] == pytest.approx([0.8, 0.1, 0.1])
    widget.evidence = {"wet": {"no", "a bit"}}
    assert widget.findings == [{"node": 2, "states": [0, 1]}]
    with pytest.raises(hb.TableError, match="'wet'"):
        widget.evidence = {"wet": "dry"}
    bundle = widget._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "<svg" in data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert widget._esm == read_module()


def test_findings_together_fill_a_page_to_the_last() -> None:
    responder = Responder(make_tables())
    findings = [{"node": node, "state": state} for node, states in ((0, 2), (1, 3), (2, 3)) for state in range(states)]
    everything = pages._combine_findings(responder, findings, 100)
    assert [len(case) for case in everything] == [2] * (2 * 3 + 2 * 3 + 3 * 3) + [3] * (2 * 3 * 3)
    assert pages._combine_findings(responder, findings, len(everything)) == everything
    # all of some nodes or none
    assert len(pages._combine_findings(responder, findings, len(everything) - 1)) == 21
    assert len(pages._combine_findings(responder, findings, 20)) == 12
    assert len(pages._combine_findings(responder, findings, 6)) == 6
    assert pages._combine_findings(responder, findings, 5) == []
    for case in everything:
        nodes = [findings[i]["node"] for i in case]
        assert nodes == sorted(set(nodes))
