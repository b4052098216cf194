"""Whatever is registered is known everywhere as soon as it is defined: one file, one definition, nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.verb import Verb
from hybridbn.errors import TableError
from hybridbn.exchange import FORMATS
from hybridbn.fitting import Fitter
from hybridbn.inference.engines import Engine, list_engines
from hybridbn.registry import LazyModule, Registry, import_library
from hybridbn.structures.building import BUILDERS
from hybridbn.tables.backends.base import Backend
from hybridbn.tables.columns import ColumnAdapter, FrameAdapter
from hybridbn.tables.formats.base import FileFormat
from hybridbn.tables.formats.database_base import Database

REGISTRIES: dict[str, Registry[Any]] = {
    "family": hb.Potential.families,
    "fitter": Fitter.registry,
    "builder": BUILDERS,
    "networks": FORMATS,
    "tables": FileFormat.registry,
    "database": Database.registry,
    "backend": Backend.registry,
    "command": Verb.registry,
    "engine": Engine.registry,
    "frames": FrameAdapter.registry,
    "columns": ColumnAdapter.registry,
}

ADDED = {
    "family": """
        from hybridbn.potentials.base import Potential, spread

        class Bump(Potential):
            family = "bump"

            def __init__(self, child, parents=()):
                self.child, self.parents = child, tuple(parents)

            def on(self, axes):
                *_, x = spread(axes, self.scope)
                return 0.5 * (abs(x) < 1), 0.0

            def to_dict(self):
                return {}

            @classmethod
            def from_dict(cls, child, parents, state):
                return cls(child, parents)
        """,
    "fitter": """
        from dataclasses import dataclass
        from hybridbn.fitting.gaussian import GaussianFitter

        @dataclass(frozen=True)
        class Added(GaussianFitter):
            name = "bump"
            family = "gaussian"
        """,
    "builder": """
        import hybridbn as hb
        from hybridbn.structures.building import builder

        @builder(takes_target=False)
        def bump(data, potentials="auto", weights=None):
            return hb.fit([("c", "x")], data, potentials, weights)
        """,
    "networks": """
        import hybridbn as hb
        from hybridbn.exchange import register_format

        def read_bump(path):
            return hb.load(str(path) + ".hbn")

        def write_bump(network, path):
            network.save(str(path) + ".hbn")

        register_format((".bump",), read_bump, write_bump)
        """,
    "tables": """
        from hybridbn.tables.formats.base import FileFormat, cell_values
        from hybridbn.tables.formats.typed_columns import type_objects

        class Bump(FileFormat):
            title = "bumps"
            suffixes = (".bump",)

            def read(self, file, wanted, suffix):
                lines = file.read_text().splitlines()
                columns = {name: values for name, *values in (line.split(";") for line in lines)}
                read = {n: [float(v) if n == "x" else v for v in columns[n]] for n in wanted.names(list(columns))}
                return type_objects(read, wanted)

            def write(self, table, file, suffix, **options):
                for name in table.names:
                    file.write((";".join([name, *map(str, cell_values(table, name))]) + "\\n").encode())
        """,
    "database": """
        from hybridbn.tables.formats.sqlite import Sqlite

        class Bumps(Sqlite):
            schemes = ("bump:",)
        """,
    "backend": """
        from hybridbn.tables.backends.base import Backend

        class Bump(Backend):
            name = "bump"

            def map(self, function, items):
                return [function(item) for item in items[::-1]][::-1]
        """,
    "command": """
        from hybridbn.commands.verb import Verb

        class Bump(Verb):
            name, summary, examples, description = "bump", "say a word", "", "Says a word."

            def add_arguments(self, parser):
                parser.add_argument("word", choices=("high", "low"))

            def run(self, options, terminal):
                terminal.show(options.word)
        """,
    "engine": """
        from hybridbn.inference.engines import Engine

        class Bump(Engine):
            rank = 1
            asked = []

            def plan(self, problem, evidence, options):
                self.asked.append(problem)
                return None
        """,
    "frames": """
        from hybridbn.tables.frames.arrays import Mappings

        class Bumps(Mappings):
            kind = "bump"

            def owns(self, data):
                return isinstance(data, Bump)

            def open(self, data):
                return super().open(data.columns)

        class Bump:
            columns = {"x": [1.0, 2.0]}
        """,
    "columns": """
        from hybridbn.tables.frames.arrays import ArrayColumns

        class Bumps(ArrayColumns):
            kind = "bump"

            def owns(self, values):
                return False
        """,
}
"""For each kind the one file that adds something, called "bump", to the kind's package."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of the test, with a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    rng = np.random.default_rng(1)
    c = rng.choice(["a", "b"], 60)
    hb.Table({"c": c, "x": rng.normal(size=60).round(3) + (c == "a")}).write("t.csv")
    return tmp_path


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Put the file of a kind into the kind's package, and forget what it registered after the test."""
    undone: list[Callable[[], None]] = []

    def add_file(kind: str) -> None:
        registry = REGISTRIES[kind]
        package: Any = importlib.import_module(registry.package)
        known = dict(registry.load())
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "bump_module.py").write_text(dedent(ADDED[kind]))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / "package")])
        monkeypatch.setattr(registry, "_loaded", False)

        def forget() -> None:
            registry.clear()
            registry.update(known)
            sys.modules.pop(f"{registry.package}.bump_module", None)
            if hasattr(package, "bump_module"):
                del package.bump_module

        undone.append(forget)

    yield add_file
    for forget in undone:
        forget()


def do(command: str) -> int:
    try:
        return run(command.split())
    except SystemExit as error:
        return int(error.code or 0)


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_file_in_the_package_registers_what_it_defines(kind: str, add: Callable[[str], None]) -> None:
    registry = REGISTRIES[kind]
    name = {"tables": ".bump", "database": "bump:", "engine": "Bump"}.get(kind, "bump")
    assert registry.find(name) is None
    add(kind)
    added = registry.find(name)
    assert added is not None
    assert registry.load()[name] is added
    assert all(registry.find(known) is not None for known in registry)


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_name_belongs_to_one_definition(kind: str) -> None:
    registry = REGISTRIES[kind]
    before = dict(registry.load())
    name, value = next(iter(before.items()))
    definition = None if kind != "networks" else value.read
    registry.register(value, name, definition=definition)  # as a cell of a notebook that is run again does
    with pytest.raises((TypeError, hb.NetworkError), match="already, that of hybridbn"):
        registry.register(object, name)
    # no other name either, whichever of them is taken
    with pytest.raises((TypeError, hb.NetworkError), match="already, that of hybridbn"):
        registry.register(object, "free", name)
    assert registry == before


def test_a_family_is_read_from_files(add: Callable[[str], None]) -> None:
    add("family")
    family: Any = hb.Potential.families.find("bump")
    hb.Network([family(hb.Continuous("x"))]).save("m.hbn")
    loaded = hb.load("m.hbn")
    assert isinstance(loaded, hb.Network)
    assert type(loaded.potential("x")) is family
    assert hb.potentials.__getattr__("Bump") is family
    assert loaded.posterior("x", {}).mean() == pytest.approx(0, abs=1e-9)


def said_by(capsys: pytest.CaptureFixture[str], command: str) -> str:
    capsys.readouterr()
    with suppress(SystemExit):
        run(command.split())
    return capsys.readouterr().out


def test_a_fitter_is_asked_for_by_name(add: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    add("fitter")
    assert do("fit t.csv m.hbn --structure tan --target c --potentials bump --quiet") == 0
    assert hb.fit([], hb.read_table("t.csv"), "bump").potential("x").family == "gaussian"  # type: ignore[arg-type]
    assert "bump" in said_by(capsys, "fit --help")
    assert "bump" in said_by(capsys, "completion bash")


def test_a_builder_is_asked_for_by_name(add: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    add("builder")
    assert do("fit t.csv m.hbn --structure bump --quiet") == 0
    assert list(hb.read_network("m.hbn").edges) == [("c", "x")]
    assert hb.impute({"c": ["a", "b", None] * 4, "x": [1.0, 2.0, 3.0] * 4}, structure="bump", rounds=1)  # type: ignore[arg-type]
    assert "bump" in said_by(capsys, "completion zsh")


def test_networks_of_a_format_are_read_and_written(add: Callable[[str], None]) -> None:
    add("networks")
    assert do("fit t.csv m.hbn --structure naive_bayes --target c --quiet") == 0
    assert do("convert m.hbn n.bump") == do("convert n.bump again.hbn") == 0
    assert sorted(hb.read_network("n.bump")) == ["c", "x"]


def test_tables_of_a_format_are_read_written_and_scanned(
    add: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    add("tables")
    assert do("convert t.csv t.bump") == do("convert t.bump again.csv") == 0
    assert hb.read_table("t.bump").equals(hb.read_table("t.csv"))
    assert Path("again.csv").read_text() == Path("t.csv").read_text()
    assert len(hb.scan("t.bump")) == 60
    assert do("fit t.bump m.hbn --structure naive_bayes --target c --quiet") == 0
    assert "bump" in said_by(capsys, "completion fish")


def test_a_backend_is_asked_for_by_name(add: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    add("backend")
    known = hb.scan("t.csv", backend="local").variable("c")
    assert hb.scan("t.csv", backend="bump").variable("c") == known
    assert do("fit t.csv m.hbn --structure naive_bayes --target c --quiet --backend bump") == 0
    assert do("fit t.csv m.hbn --structure naive_bayes --target c --backend bump --workers 2") == 2
    assert "leave --workers out" in capsys.readouterr().err
    assert do("fit t.csv m.hbn --backend bumb") == 2
    assert "did you mean bump?" in capsys.readouterr().err
    assert "bump" in said_by(capsys, "fit --help")
    assert "--backend" in said_by(capsys, "completion bash")


def test_a_command_needs_no_option_of_its_own(add: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    add("command")
    assert said_by(capsys, "bump high") == "high\n"
    assert said_by(capsys, "bump low --quiet") == "low\n"
    assert "say a word" in said_by(capsys, "--help")
    assert '"bump "*) listed=(high low)' in said_by(capsys, "completion bash")
    assert do("bumb low") == 2
    assert "did you mean bump?" in capsys.readouterr().err


def test_an_engine_is_asked(add: Callable[[str], None]) -> None:
    add("engine")
    assert Engine.registry.find("Bump") is list_engines()[0]
    engine: Any = list_engines()[0]
    net = hb.fit("c->x", hb.read_table("t.csv"), "gaussian")
    assert net.posterior("x", {"c": "a"}).mean() > net.posterior("x", {"c": "b"}).mean()
    assert engine.asked


def test_a_frame_is_opened(add: Callable[[str], None]) -> None:
    add("frames")
    FrameAdapter.registry.load()
    frame = sys.modules[f"{FrameAdapter.registry.package}.bump_module"].Bump()
    assert hb.Table(frame)["x"].tolist() == [1.0, 2.0]


def test_every_builder_has_a_type() -> None:
    """Editors and type checkers see the builders where the registry puts them."""
    import hybridbn.structures as structures

    tree = ast.parse(Path(str(structures.__file__)).read_text(encoding="utf-8"))
    [listed] = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    names = {
        (str(statement.module), alias.name, alias.asname)
        for statement in listed.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    own = {name: function for name, function in BUILDERS.items() if function.__module__.startswith("hybridbn.")}
    assert names == {(function.__module__, name, name) for name, function in own.items()}
    assert all(getattr(structures, name) is function for name, function in own.items())


def test_what_is_not_installed_may_be_inspected_and_is_missed_when_used() -> None:
    absent = LazyModule("not_installed_anywhere")
    assert inspect.unwrap(absent) is absent  # type: ignore[arg-type]
    assert not inspect.isroutine(absent)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        absent.connect()


def test_a_name_without_letters_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases of any scheme are known by the scheme "", with which `load` is not to be content."""
    imported: list[str] = []

    def note(name: str) -> Any:
        imported.append(name)
        return importlib.import_module(name)

    monkeypatch.setattr("hybridbn.registry.import_module", note)
    known = Registry[type]("scheme", "hybridbn.tables.formats")
    known.register(str, "")
    known.load().load()
    assert imported.count("hybridbn.tables.formats.arff") == imported.count("hybridbn.tables.formats.sqlite") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import not_installed_anywhere", r"pip install it \(No module named 'not_installed_anywhere'\)$"),
        ("raise ImportError('libx.so: cannot open')", r"pip install it \(libx.so: cannot open\)$"),
        (None, "pip install it$"),
    ],
)
def test_a_library_that_is_there_but_broken_says_why(
    text: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if text is not None:
        (tmp_path / "broken_library.py").write_text(text)
    for name in ("broken_library", "broken_library.part"):
        with pytest.raises(TableError, match=told):
            import_library(name, "pip install it")
