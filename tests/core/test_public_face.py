"""What users build on stays: names, keywords, members of results, the command's options and its exit codes.

`data/public_face.json` says what was promised. Additions are welcome and need no entry; what vanished fails here. A
name that goes works for one release longer with a DeprecationWarning. After a release, or for a removal that the
CHANGELOG announces, ``python tests/core/test_public_face.py`` records the face anew.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
import json
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).parents[1] / "data" / "public_face.json"

PACKAGES = ("", "estimators", "fitting", "inference", "learning", "potentials", "structures")
"""The packages whose `__all__` is a promise; those of other modules are for the library's own use."""

INTERNAL = {"answered", "clone", "taken", "drawn", "moments", "knots", "numbers", "of", "joined", "collapsed"}
"""What classes of results offer to the library alone: no document or example has them."""

RESULTS = {
    "Augmented",
    "Bootstrap",
    "Comparison",
    "Imputation",
    "Learned",
    "Observed",
    "Pooled",
    "Statistics",
    "Structured",
}
"""Classes that functions return and users don't make: their members are promised, their constructors are not."""

Face = dict[str, Any]


# -- what there is ------------------------------------------------------------------------------------------------


def resolve(path: str) -> Any:
    """Return what ``package.module:name`` is; a deprecated name may warn."""
    module, _, name = path.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        loaded = importlib.import_module(module)
        if not name:
            return loaded
        try:
            return getattr(loaded, name)
        except AttributeError:
            return importlib.import_module(f"{module}.{name}")


def signature_of(function: Callable[..., Any]) -> str | None:
    """Return the parameters' names, ``name=`` where there is a default; None where there is no signature to read."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return None
    words, star = [], False
    for parameter in parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            keywords = _unpacked(function, str(parameter.annotation))
            words += ["*"] * (bool(keywords) and not star)
            star = star or bool(keywords)
            words += [f"{name}=" for name in keywords]
            words.append(f"**{parameter.name}")
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
            words.append(f"*{parameter.name}")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            words.append("*")
        words.append(parameter.name + "=" * (parameter.default is not parameter.empty))
    return ", ".join(words)


def _unpacked(function: Callable[..., Any], annotation: str) -> list[str]:
    """Return the keys of the TypedDict in ``**options: Unpack[...]``."""
    match = re.search(r"Unpack\[([\w.]+)\]", annotation)
    if match is None:
        return []
    name = match[1].rpartition(".")[2]
    places = [getattr(inspect.unwrap(function), "__globals__", {})]
    places += [vars(module) for key, module in sorted(sys.modules.items()) if key.startswith("hybridbn")]
    kinds = [place[name] for place in places if name in place]
    return list(kinds[0].__annotations__) if kinds else []


def members_of(kind: type) -> dict[str, str]:
    """Return the members that the library gives a class: signatures of methods, and what else it documents."""
    members: dict[str, str] = {}
    for base in kind.__mro__:
        if not base.__module__.startswith("hybridbn"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in INTERNAL or name in members or re.fullmatch(r"set_\w+_request", name):
                continue
            if callable(value) or isinstance(value, classmethod | staticmethod):
                members[name] = signature_of(getattr(kind, name)) or ""
            else:
                members[name] = "attribute"
        section = re.search(r"Attributes\n-+\n(.*?)(?:\n\n|\Z)", inspect.cleandoc(base.__doc__ or ""), re.S)
        for line in section[1].splitlines() if section else ():
            if line[:1].isalpha():
                members |= {name: "attribute" for name in re.split(r", *", line.split(" : ")[0]) if name not in members}
    if dataclasses.is_dataclass(kind):
        members |= {field.name: "attribute" for field in dataclasses.fields(kind) if field.name[0] != "_"}
    return members


def kept_by(value: Any) -> dict[str, str]:
    """Return the keywords of a constructor that are attributes of what it makes."""
    keywords = inspect.signature(type(value)).parameters
    return {name: "attribute" for name in keywords if hasattr(value, name)}


@cache
def small_network() -> Any:
    """Return a network with a node of every family."""
    import hybridbn as hb

    c, x, y, z, w = hb.Discrete("c", states=("a", "b")), *map(hb.Continuous, "xyzw")
    s, b = hb.Discrete("s", states=("a", "b")), hb.Discrete("b", states=("low", "high"))
    return hb.Network(
        [
            hb.Multinomial(c, table=[0.5, 0.5]),
            hb.LinearGaussian(x, parents=(c,), intercept=[0, 1], variance=[1, 1]),
            hb.Kernel(y, points=[0.0, 1.0], bandwidths=1),
            hb.MTE(z, pieces=[hb.Piece({"z": (0, 2)}, constant=0.5)]),
            hb.Softmax(s, parents=(x,), intercept=[0, 1], coefficients=[[1], [0]]),
            hb.Boxes(b, (x,), [[[-inf, 0.0], [0.0, inf]]]),
            hb.Cases(
                w, (c,), [hb.Kernel(w, points=[0.0], bandwidths=1), hb.LinearGaussian(w, intercept=0, variance=1)]
            ),
            hb.Density(hb.Continuous("v", (0, 1)), function=lambda v: 1.0 + 0 * v),
        ]
    )


@cache
def results() -> dict[str, type]:
    """Return the classes of what public functions give back and no package names."""
    import hybridbn as hb

    net = small_network()
    table = hb.Table({"u": [1.0, 2.0, None, 4.0, 5.0, 6.0], "v": ["a", "b", "a", "b", "a", "b"]})
    rounds: list[Any] = []
    hb.boost(
        table.select(["v"]),
        "v",
        hb.Network([hb.Multinomial(hb.Discrete("v", states=("a", "b")), table=[0.5, 0.5])]),
        rounds=1,
        progress=rounds.append,
    )
    given = {
        "posterior of a discrete variable": net.posterior("c"),
        "posterior of a linear Gaussian variable": net.posterior("x"),
        "posterior of a variable with a kernel density": net.posterior("y"),
        "posterior of a variable with an MTE": net.posterior("z"),
        "joint posterior": net.posterior(["c", "x"]),
        "explanation": net.explain("c", {"x": 1.0}),
        "history of an augmentation": hb.augment(
            table, "u", potentials="gaussian", max_iterations=2, random_state=0
        ).history,
        "round of boosting": rounds[0],
    }
    return {name: type(value) for name, value in given.items()}


def names_now() -> dict[str, list[str]]:
    """Return the names of the packages."""
    modules = [f"hybridbn.{package}".rstrip(".") for package in PACKAGES]
    return {module: sorted(getattr(resolve(module), "__all__", ())) for module in modules}


def public_objects(names: dict[str, list[str]]) -> dict[str, Any]:
    """Return the objects behind names, each under its first path."""
    objects: dict[str, Any] = {}
    for module, listed in names.items():
        for name in listed:
            value = resolve(f"{module}:{name}")
            if not any(value is other for other in objects.values()):
                objects[f"{module}:{name}"] = value
    return objects


def options_now() -> Face:
    """Return the options of each command, and the exit codes that its help tells."""
    from hybridbn.commands.verb import make_parser

    top = make_parser()
    [commands] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    face: Face = {"hybridbn": _options(top)}
    for name, command in commands.choices.items():
        face[f"hybridbn {name}"] = _options(command)
    return {"options": face, "exit codes": _codes(commands.choices["impute"].format_help(), r"^  (\d+)  ")}


def _options(parser: argparse.ArgumentParser) -> Face:
    face: Face = {}
    for place, action in enumerate(parser._actions):
        if isinstance(action, argparse._SubParsersAction):
            continue
        names = action.option_strings or [f"argument {place}: {action.metavar or action.dest}"]
        said: Face = {"takes": "nothing" if action.nargs == 0 else str(action.nargs or "a value")}
        if action.choices:
            said["choices"] = list(action.choices)
        if action.default not in (None, [], argparse.SUPPRESS):
            said["default"] = action.default
        for name in names:
            face[name] = said
    return face


def _codes(text: str, pattern: str) -> list[int]:
    return sorted(int(code) for code in re.findall(pattern, text, re.M))


# -- code that is shown -------------------------------------------------------------------------------------------


def guide_blocks() -> list[str]:
    """Return the blocks of Python in the README and on the pages of the guide."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    for page in sorted((ROOT / "examples" / "guide").rglob("*.rst")):
        if not {"generated", "gallery"} & {*page.parts}:  # what building the site leaves there
            found = re.findall(r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", page.read_text(), re.M)
            blocks += map(textwrap.dedent, found)
    return blocks


def examples_of(text: str) -> str:
    """Return the code of the examples in a docstring."""
    return "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) ?(.*)$", text, re.M))


def paths_used(code: str) -> set[str]:
    """Return what code imports from the library, and what it takes from ``hb``, as ``module:name``."""
    paths = set()
    for node in ast.walk(ast.parse(textwrap.dedent(code))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hybridbn":
            paths |= {f"{node.module}:{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            paths |= {f"{alias.name}:" for alias in node.names if alias.name.split(".")[0] == "hybridbn"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hb":
            paths.add(f"hybridbn:{node.attr}")
    return {path for path in paths if path != "hybridbn:"}


def shown_code() -> Iterator[tuple[str, str]]:
    """Return code that users see, with where it stands: README and guide, docstrings of what is public, examples."""
    for block in guide_blocks():
        yield "README.md", block
    for path, value in public_objects(names_now()).items():
        members = members_of(value) if inspect.isclass(value) else ()
        for one in [value, *(getattr(value, name, "") for name in members)]:
            if not isinstance(one, str) and (text := inspect.getdoc(one)):
                yield f"docstrings of {path.partition(':')[2]}", examples_of(text)
    for file in sorted((ROOT / "examples").rglob("*.py")):
        if "gallery" in file.parts:
            continue
        yield "examples", file.read_text()


def imports_now() -> dict[str, list[str]]:
    """Return the paths that shown code imports and that no package's `__all__` names."""
    named = {f"{module}:{name}" for module, listed in names_now().items() for name in listed}
    used: dict[str, set[str]] = {"README.md and docstrings": set(), "examples": set()}
    for place, code in shown_code():
        used["examples" if place == "examples" else "README.md and docstrings"] |= paths_used(code) - named
    return {place: sorted(paths) for place, paths in used.items()}


def face_now() -> Face:
    """Return the whole public face of the library as it is."""
    names = names_now()
    objects = public_objects(names)
    face: Face = {"names": names, "imports": imports_now(), "signatures": {}, "members": {}, "get_params": {}}
    for path, value in objects.items():
        if not callable(value):
            continue
        signature = signature_of(value)
        if signature is not None and path.partition(":")[2] not in RESULTS:
            face["signatures"][path] = signature
        if inspect.isclass(value):
            bases = [base for base in objects.values() if inspect.isclass(base) and base in value.__mro__[1:]]
            inherited = {item for base in bases for item in members_of(base).items()}
            face["members"][path] = dict(members_of(value).items() - inherited)
            if hasattr(value, "get_params"):
                made: Any = value()
                face["get_params"][path] = sorted(made.get_params())
    face["kept"] = {type(value).__name__: sorted(kept_by(value)) for value in small_network().potentials}
    face["results"] = {name: members_of(kind) for name, kind in results().items()}
    return {**face, "command": options_now()}


def record() -> None:
    """Write the public face as it is now; what a diff of the file removes must be in the CHANGELOG."""
    RECORD.write_text(json.dumps(face_now(), indent=1, sort_keys=True) + "\n")


# -- comparisons --------------------------------------------------------------------------------------------------


def lost_parameters(promised: str, now: str) -> list[str]:
    """Return what calls that fit the promised signature would miss in the present one."""
    if promised == "attribute" or now == "attribute":
        return [] if promised == now else [f"was {promised or 'a method'}, is {now or 'a method'}"]
    before, after = promised.split(", ") if promised else [], now.split(", ") if now else []
    bare = {word.rstrip("="): word for word in after}
    lost = []
    for word in before:
        name = word.rstrip("=")
        stars = "*" * (len(name) - len(name.lstrip("*")))
        if name == "*" or (stars and any(other.startswith(stars) for other in after)):
            continue
        if name not in bare:
            lost.append(f"{name} is gone")
        elif word.endswith("=") and not bare[name].endswith("="):
            lost.append(f"{name} has no default any more")
    known = {word.rstrip("=") for word in before}
    lost += [f"{w} is new and has no default" for w in after if w[:1] != "*" and w[-1:] != "=" and w not in known]
    leading = [[w.rstrip("=") for w in _positional(words)] for words in (before, after)]
    if leading[1][: len(leading[0])] != leading[0] and not lost:
        lost.append(f"positional arguments were {', '.join(leading[0])}, are {', '.join(leading[1])}")
    return lost


def _positional(words: list[str]) -> list[str]:
    stop = next((place for place, word in enumerate(words) if word.startswith("*")), len(words))
    return words[:stop]


def compare_members(promised: dict[str, str], kind: type) -> list[str]:
    now = members_of(kind)
    for name in promised.keys() - now.keys():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            value = getattr(kind, name, None)
        if value is not None:
            now[name] = (signature_of(value) or "") if callable(value) else "attribute"
    lost = [f".{name} is gone" for name in sorted(promised.keys() - now.keys())]
    for name in sorted(promised.keys() & now.keys()):
        lost += [f".{name}: {one}" for one in lost_parameters(promised[name], now[name])]
    return lost


def report(lost: list[str]) -> None:
    remedy = "keep them (with a DeprecationWarning), or record a removal that the CHANGELOG tells"
    if lost:
        pytest.fail("\n  ".join([f"{RECORD.name} promises what is gone; {remedy}:", *lost]), pytrace=False)


@pytest.fixture(scope="module")
def promised() -> Face:
    return json.loads(RECORD.read_text())


def is_there(path: str) -> bool:
    try:
        resolve(path.rstrip(":"))
    except (ImportError, AttributeError):
        return False
    return True


def test_names_and_import_paths_stay(promised: Face) -> None:
    paths = [f"{module}:{name}" for module, names in promised["names"].items() for name in ["", *names]]
    lost = [path for path in paths if not is_there(path)]
    for place, imported in promised["imports"].items():
        lost += [f"{path}, which {place} imported" for path in imported if not is_there(path)]
    report(lost)


def test_public_packages_list_what_they_promise(promised: Face) -> None:
    """A name that stars import and editors show is in `__all__`, unless it is deprecated."""
    lost = []
    for module, names in promised["names"].items():
        listed = getattr(resolve(module), "__all__", ())
        for name in sorted({*names} - {*listed}):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                getattr(importlib.import_module(module), name, None)
            if not any(issubclass(warning.category, DeprecationWarning) for warning in caught):
                lost.append(f"{module}.{name} is neither in __all__ nor deprecated")
    report(lost)


def test_keywords_stay(promised: Face) -> None:
    lost = []
    for path, signature in promised["signatures"].items():
        if is_there(path):  # the test of names tells what is gone
            now = signature_of(resolve(path))
            lost += [f"{path}({one})" for one in lost_parameters(signature, now or "")]
    for path, names in promised["get_params"].items():
        if is_there(path):
            lost += [f"{path}().get_params(): {name}" for name in names if name not in resolve(path)().get_params()]
    report(lost)


def test_members_stay(promised: Face) -> None:
    lost = []
    for path, members in promised["members"].items():
        if is_there(path):
            lost += [f"{path}{one}" for one in compare_members(members, resolve(path))]
    kept = {type(value).__name__: kept_by(value) for value in small_network().potentials}
    for family, names in promised["kept"].items():
        lost += [f"{family}.{name}" for name in names if name not in kept.get(family, ())]
    for name, members in promised["results"].items():
        lost += [f"{name}: {one}" for one in compare_members(members, results()[name])]
    report(lost)


def test_options_of_the_command_stay(promised: Face) -> None:
    now, lost = options_now()["options"], []
    for command, options in promised["command"]["options"].items():
        for name, said in options.items():
            there = now.get(command, {}).get(name)
            if there is None:
                lost.append(f"{command} {name}")
                continue
            for key, value in said.items():
                choices = there.get(key, ())
                if value != choices if key != "choices" else not {*value} <= {*choices}:
                    lost.append(f"{command} {name}: {key} was {value!r}, is {there.get(key)!r}")
    report(lost)


def test_exit_codes_stay_and_are_told_alike(promised: Face) -> None:
    codes = promised["command"]["exit codes"]
    assert options_now()["exit codes"] == codes
    page = ROOT / "examples" / "guide" / "howto" / "impute.rst"
    assert _codes(page.read_text(), r"^(\d+) {2,}\w") == codes


def test_names_in_shown_code_exist() -> None:
    used = {(place, path) for place, code in shown_code() for path in paths_used(code)}
    assert len(used) > 50
    report(sorted(f"{path}, which {place} uses" for place, path in used if not is_there(path)))


# -- the comparison itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("a, b=", "a, b=, c=, *, d=", []),
        ("a, *, b=", "a, *, options=, b=, **keywords", []),
        ("a, b=, *, c=", "a, b=", ["c is gone"]),
        ("a, b=", "a, c=, b=", ["positional arguments were a, b, are a, c, b"]),
        ("a, b=", "a, *, b=", ["positional arguments were a, b, are a"]),
        ("a, b=", "a, b", ["b has no default any more"]),
        ("a", "a, *, c", ["c is new and has no default"]),
        ("a, **options", "a", ["**options is gone"]),
        ("attribute", "x", ["was attribute, is x"]),
        ("", "", []),
    ],
)
def test_what_counts_as_a_loss(before: str, after: str, lost: list[str]) -> None:
    assert lost_parameters(before, after) == lost


if __name__ == "__main__":
    record()
