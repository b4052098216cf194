"""Small edits of a library's functions, and a seeded sample of them: each should make a test fail.

An edit changes one expression or statement within the body of a function. Messages of `raise`, annotations, defaults
and texts are left alone. A sample depends on the seed and on the code that is edited, not on the code around it: what
is written elsewhere in the library hardly changes who is in it.
"""

from __future__ import annotations

import ast
import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, groupby, islice
from typing import Any, TypeVar

T = TypeVar("T")

COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
ARITHMETIC = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
AXES = {0: 1, 1: 0, -1: 0, 2: 1, -2: -1}
SHARES = {
    **{
        "comparison": 2.0,
        "arithmetic": 2.5,
        "constant": 1.5,
        "negation": 1.5,
        "boolean": 2.0,
        "deleted statement": 1.0,
    },
    **{"dropped keyword": 2.5, "swapped arguments": 0.4, "axis": 3.0, "loop": 1.0, "flag": 1.5, "filter": 2.0},
}
"""How often each kind of edit is chosen where a statement has several; swapped arguments mostly end in a crash."""

SYMMETRIC = {"min", "max", "zip", "maximum", "minimum", "logaddexp", "isclose", "gcd"}
"""Functions whose two first arguments may be swapped."""

OF_TYPES = {"isinstance", "issubclass", "cast"}
"""Functions whose arguments are left alone: nobody would mistake one for the other."""

LEFT_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Pass)
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
EXPRESSIONS = (ast.expr, ast.keyword, ast.comprehension, ast.withitem)
COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


@dataclass(frozen=True)
class Block:
    """A list of statements within a function, and the function's qualified name."""

    function: str
    owner: ast.AST
    field: str

    @property
    def statements(self) -> list[ast.stmt]:
        """Return the statements."""
        statements: list[ast.stmt] = getattr(self.owner, self.field)
        return statements

    def heads(self) -> list[int]:
        """Return the indices from which on all statements run if that one does: the first, and those after a branch."""
        statements = self.statements
        first = int(isinstance(self.owner, NESTED) and ast.get_docstring(self.owner) is not None)
        return [i for i in range(first, len(statements)) if i == first or isinstance(statements[i - 1], COMPOUND)]


def find_blocks(node: ast.AST, function: str = "", within: str = "") -> Iterator[Block]:
    """Yield the blocks of all functions below a node: of the function `function`, in what is named `within`."""
    for field, children in ast.iter_fields(node):
        if not isinstance(children, list):
            continue
        if function and children and isinstance(children[0], ast.stmt):
            yield Block(function, node, field)
        for child in children:
            if isinstance(child, ast.ClassDef):
                yield from find_blocks(child, "", f"{within}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{within}{child.name}"
                yield from find_blocks(child, name, f"{name}.")
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                yield from find_blocks(child, function, within)


def instrument(tree: ast.Module, name: str, numbers: Mapping[int, int]) -> None:
    """Let every head of a block store 1 in an array of that name, at the number of its line."""
    for block in list(find_blocks(tree)):
        statements = block.statements
        for index in reversed(block.heads()):
            head = statements[index]
            probe = ast.parse(f"{name}[{numbers[head.lineno]}] = 1").body[0]
            for node in ast.walk(probe):
                if hasattr(node, "lineno"):
                    ast.copy_location(node, head)
            statements.insert(index, probe)


@dataclass(frozen=True)
class Edit:
    """Another value of a field of a node of a syntax tree, and what to show of it if the statement itself won't do."""

    operator: str
    node: ast.AST
    field: str
    value: Any
    text: str = ""


@dataclass(frozen=True)
class Statement:
    """A statement of a function with the kinds of its edits."""

    path: str
    """From the root of the checkout."""
    function: str
    text: str
    nth: int
    """Which of the statements of the function that read alike."""
    line: int
    head: int
    """The line of the head of its block: tests that don't run it can't see the mutants."""
    edits: tuple[tuple[int, str], ...]
    """The numbers of the edits, counted in the whole file, and their kinds."""

    @property
    def room(self) -> str:
        """Return the folder of the package at its first level, "core" for what lies beside the rooms."""
        parts = self.path.split("/")
        room = parts[0] if parts[0] in ("structures", "inference") else parts[1] if len(parts) > 2 else "core"
        return "core" if room == "datasets" else room

    @property
    def place(self) -> str:
        """Return the file and the function."""
        return f"{self.path} {self.function}" + (f" ({self.nth + 1})" if self.nth else "")


@dataclass(frozen=True)
class Mutant:
    """One of the edits of a statement."""

    statement: Statement
    index: int | None
    """The number of the edit in its file, None for no edit at all."""
    operator: str
    edit: str
    """The statement before and after."""

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from others, whatever moves around it."""
        return self.statement.place, self.edit


def find_statements(path: str, tree: ast.Module) -> Iterator[Statement]:
    """Yield the statements of a file that have edits."""
    seen: Counter[tuple[str, str]] = Counter()
    found = groupby(enumerate(find_edits(tree)), key=lambda numbered: id(numbered[1].statement))
    for _, edits in found:
        numbered = [(index, site) for index, site in edits]
        site = numbered[0][1]
        text = show(site.statement)
        kinds = tuple((index, site.edit.operator) for index, site in numbered)
        nth = seen[site.function, text]
        seen[site.function, text] += 1
        yield Statement(path, site.function, text, nth, site.statement.lineno, site.head, kinds)


def mutate(tree: ast.Module, index: int) -> str:
    """Apply one of the edits of a file to its tree, and return the statement before and after."""
    site = next(islice(find_edits(tree), index, None))
    before = show(site.statement)
    setattr(site.edit.node, site.edit.field, site.edit.value)
    ast.fix_missing_locations(tree)
    return f"{before}  ->  {site.edit.text or show(site.statement)}"


def show(statement: ast.stmt) -> str:
    """Return a statement on one line, without the blocks that it has."""
    if isinstance(statement, COMPOUND):
        statement = copy.copy(statement)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if hasattr(statement, field):
                setattr(statement, field, [])
    return " ".join(ast.unparse(statement).split())


@dataclass(frozen=True)
class Site:
    """An edit, its statement, the name of the function and the line of the head of the block."""

    function: str
    head: int
    statement: ast.stmt
    edit: Edit


def find_edits(tree: ast.Module) -> Iterator[Site]:
    """Yield the edits of a file, always in one order."""
    for block in list(find_blocks(tree)):
        heads = block.heads()
        known: set[str] = set()
        for index, statement in enumerate(block.statements):
            if isinstance(statement, (*LEFT_ALONE, *NESTED)):
                continue
            head = block.statements[max((i for i in heads if i <= index), default=0)].lineno
            for edit in chain(edit_statement(block, index, known), edit_expressions(statement)):
                yield Site(block.function, head, statement, edit)
            known |= find_names(statement)


def find_names(node: ast.AST) -> set[str]:
    """Return the names that a piece of code reads or sets."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


# -- statements -------------------------------------------------------------------------------------------------------


def edit_statement(block: Block, index: int, known: set[str]) -> Iterator[Edit]:
    """Yield the edits that leave out a statement, or leave a loop; `known` are names that have a value before it."""
    statement = block.statements[index]

    def replaced(operator: str, other: ast.stmt, text: str) -> Edit:
        return Edit(operator, block.owner, block.field, put(block.statements, index, other), text)

    if isinstance(statement, ast.Continue):
        yield replaced("loop", ast.Break(), "break")
    elif isinstance(statement, ast.Break):
        yield replaced("loop", ast.Pass(), "pass")
    elif isinstance(statement, ast.For) and not isinstance(statement.body[-1], ast.Return | ast.Break | ast.Raise):
        yield Edit("loop", statement, "body", [*statement.body, ast.Break()], "break at its end")
    elif can_be_left_out(statement, known):
        # what is in it is still compiled: names that it sets are those of the function, and `yield` makes generators
        yield replaced("deleted statement", ast.If(ast.Constant(False), [statement], []), "pass")


def can_be_left_out(statement: ast.stmt, known: set[str]) -> bool:
    """Tell whether a function without the statement is more than one that misses a name."""
    if isinstance(statement, ast.Assign):
        set_here = {
            node.id
            for target in statement.targets
            for node in ast.walk(target)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        return set_here <= known | find_names(statement.value)
    return isinstance(statement, ast.AugAssign | ast.Delete) or (
        isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
    )


# -- expressions ------------------------------------------------------------------------------------------------------


def edit_expressions(node: ast.AST) -> Iterator[Edit]:
    """Yield the edits of the expressions of a statement, not of the blocks in it."""
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield Edit("arithmetic", node, "op", ARITHMETIC[type(node.op)]())
    for field, value in ast.iter_fields(node):
        if field == "keywords" and is_zip(node):
            continue
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if field == "annotation" or isinstance(child, ast.JoinedStr) or not isinstance(child, EXPRESSIONS):
                continue
            for operator, other in find_alternatives(child, condition=field == "test"):
                yield Edit(operator, node, field, [*value[:index], other, *value[index + 1 :]] if several else other)
            if not (isinstance(child, ast.Call) and name_call(child) in OF_TYPES):
                yield from edit_expressions(child)


def is_zip(node: ast.AST) -> bool:
    """Tell whether an expression is a call of `zip`, whose keyword only asserts."""
    return isinstance(node, ast.Call) and name_call(node) == "zip"


def name_call(node: ast.Call) -> str:
    """Return the last name of what is called."""
    return ast.unparse(node.func).rpartition(".")[-1]


def find_alternatives(node: Any, condition: bool) -> Iterator[tuple[str, ast.expr]]:
    """Yield what may stand in the place of an expression, which may be the condition of a statement."""
    if condition and not isinstance(node, ast.UnaryOp):
        yield "negation", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Compare):
        for index, operation in enumerate(node.ops):
            if type(operation) in COMPARISONS:
                yield "comparison", changed(node, ops=put(node.ops, index, COMPARISONS[type(operation)]()))
    elif isinstance(node, ast.BinOp):
        if type(node.op) in ARITHMETIC and not is_text(node.left) and not is_text(node.right):
            yield "arithmetic", changed(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "boolean", changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp):
        if not isinstance(node.operand, ast.Constant):
            yield "negation", node.operand
    elif isinstance(node, ast.Constant):
        yield from other_constants(node.value)
    elif isinstance(node, ast.Call):
        yield from other_calls(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for index, loop in enumerate(node.generators):
            for test in range(len(loop.ifs)):
                shorter = changed(loop, ifs=[*loop.ifs[:test], *loop.ifs[test + 1 :]])
                yield "filter", changed(node, generators=put(node.generators, index, shorter))


def other_constants(value: object) -> Iterator[tuple[str, ast.expr]]:
    """Yield what may stand in the place of a truth value or a number."""
    if isinstance(value, bool):
        yield "flag", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
    elif isinstance(value, float):
        yield "constant", ast.Constant(2 * value or 1.0)


def other_calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield calls without one of the keywords, with another axis, and with the two first arguments swapped."""
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is None or is_zip(node):
            continue
        yield "dropped keyword", changed(node, keywords=[*node.keywords[:index], *node.keywords[index + 1 :]])
        axis = read_number(keyword.value) if keyword.arg == "axis" else None
        if axis in AXES:
            other = ast.keyword("axis", ast.Constant(AXES[axis]))
            yield "axis", changed(node, keywords=put(node.keywords, index, other))
    if (
        len(node.args) > 1
        and name_call(node) not in SYMMETRIC | OF_TYPES
        and not any(isinstance(a, ast.Starred) for a in node.args[:2])
    ):
        yield "swapped arguments", changed(node, args=[node.args[1], node.args[0], *node.args[2:]])


def read_number(node: ast.expr) -> int | None:
    """Return the integer that an expression spells, None if it is none."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def is_text(node: ast.expr) -> bool:
    """Tell whether an expression is a text, so that arithmetic with it can only be joining."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def changed(node: Any, **fields: Any) -> Any:
    """Return a copy of a node with some other fields."""
    result = copy.copy(node)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def put(items: list[T], index: int, item: T) -> list[T]:
    """Return a copy of a list with another item."""
    return [*items[:index], item, *items[index + 1 :]]


# -- samples ----------------------------------------------------------------------------------------------------------


def sample(
    statements: Iterable[Statement], seed: int, number: int, least: int, make: Callable[[Statement, int], Mutant | None]
) -> list[Mutant]:
    """Return mutants of different statements: by room as many as its share of the statements, but at least `least`.

    Rooms take turns, so that each beginning of the list is a sample, too.

    Parameters
    ----------
    make : function
        Makes the mutant of a statement and the number of an edit, or None if it is not to be used.
    """
    rooms: dict[str, list[Statement]] = {}
    for statement in statements:
        rooms.setdefault(statement.room, []).append(statement)
    total = sum(map(len, rooms.values()))
    turns: list[tuple[float, str, Mutant]] = []
    for room, members in rooms.items():
        quota = max(least, round(number * len(members) / total))
        shuffled = sorted(members, key=lambda statement: draw(seed, statement.place, statement.text))
        mutants = (make(statement, choose_edit(seed, statement)) for statement in shuffled)
        chosen = list(islice((mutant for mutant in mutants if mutant is not None), quota))
        turns += [((turn + 0.5) / len(chosen), room, mutant) for turn, mutant in enumerate(chosen)]
    return [mutant for _, _, mutant in sorted(turns, key=lambda turn: turn[:2])]


def choose_edit(seed: int, statement: Statement) -> int:
    """Return the number of one of the edits of a statement: a kind by its share, then one of these."""
    place = statement.place, statement.text
    kinds = {kind for _, kind in statement.edits}
    chosen = min(kinds, key=lambda kind: -math.log(draw(seed, *place, kind)) / SHARES[kind])
    edits = [index for index, kind in statement.edits if kind == chosen]
    return edits[int(draw(seed, *place, chosen, "which") * len(edits))]


def draw(seed: int, *texts: str) -> float:
    """Return a number between 0 and 1 that belongs to a seed and some texts."""
    digest = sha256("\0".join([str(seed), *texts]).encode()).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / 2**48
