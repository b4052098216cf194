"""Which fitter a column gets, and which columns are discretized for it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, learns_as
from hybridbn.fitting.discretize import equal_frequency, mdl
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.fitting import GaussianFitter, MultinomialFitter
    from hybridbn.potentials.base import Potential
    from hybridbn.tables import Rows

__all__ = ["Potentials", "Role", "counts_suffice", "fitter_of", "moments_suffice", "roles"]

Spec: TypeAlias = "str | Fitter"
Potentials: TypeAlias = "Spec | Mapping[str, Spec]"
"""What builders take as `potentials`: one choice for all columns, or one for each (a column left out: "auto")."""

_AUTO = ("multinomial", "mte")
"""What "auto" stands for: the first of them that fits."""
_IDENTIFIER_ROWS = 20
"""A column of fewer rows may well be all different by chance."""


class Role(NamedTuple):
    """What a column is in a model: its variable, and the name of a family or the fitter that was asked for it."""

    variable: Variable
    fitter: Spec


def fitter_of(spec: Spec, child: Variable, parents: tuple[Variable, ...] = ()) -> Fitter:
    """Return the fitter of a child given its parents that a name stands for.

    Parameters
    ----------
    spec : "auto", "mte", "kernel", "gaussian", "softmax", "multinomial" or Fitter
        Or the name of any other fitter that is defined. "auto" is "mte". All of them mean a table of probabilities
        (`MultinomialFitter`) where child and parents are all discrete. "gaussian" means a logistic regression
        (`SoftmaxFitter`) for a discrete child of continuous parents. A fitter stands for its name with its options: it
        is returned unless it doesn't fit here, and then one of its `fallbacks` is.
    child : Variable
    parents : tuple of Variable

    Examples
    --------
    >>> c, x = Discrete("c", states=("a", "b")), Continuous("x")
    >>> fitter_of("gaussian", x, (c,))
    GaussianFitter(ridge=0.0, floor=None, max_bytes=2147483648)
    >>> [fitter_of("gaussian", *family).name for family in ((c, (x,)), (c, ()))]
    ['softmax', 'multinomial']
    """
    name = check_spec(spec, child.name)
    asked = type(spec) if isinstance(spec, Fitter) else None if spec == "auto" else _require_fitter(spec)
    # tables of probabilities are right for any discrete variables, and don't need what else there is to be imported
    candidates = _AUTO if asked is None else asked.fallbacks
    if asked is not None and asked.fits(child, parents):
        return spec if isinstance(spec, Fitter) else asked()
    for candidate in candidates:
        fitter = _require_fitter(candidate)
        if fitter.fits(child, parents):
            return fitter()
    raise NetworkError(_describe_unfit(name, child, parents))


def spec_of(potential: Potential) -> Spec | None:
    """Return what to ask for where such a potential is to be learned again, None where no fitter learns its family.

    Examples
    --------
    >>> from hybridbn.potentials import LinearGaussian, PointMass
    >>> x = Continuous("x")
    >>> spec_of(LinearGaussian(x, intercept=0, variance=1)), spec_of(PointMass(x, value=0))
    ('gaussian', None)
    """
    Fitter.registry.find(potential.family)
    fitters = (fitter for fitter in Fitter.registry.values() if fitter.family == potential.family)
    return next((fitter.like(potential) for fitter in fitters), None)


def list_fitter_names() -> list[str]:
    """Return the names that potentials are asked for by, "auto" first.

    Examples
    --------
    >>> list_fitter_names()[:4]
    ['auto', 'atoms', 'gaussian', 'gaussian_mixture']
    """
    return ["auto", *sorted(Fitter.registry.load())]


def _require_fitter(name: str) -> type[Fitter]:
    fitter = Fitter.registry.find(name)
    if fitter is None:
        raise NetworkError(f"there is no fitter {name!r}")
    return fitter


def _describe_unfit(name: str, child: Variable, parents: tuple[Variable, ...]) -> str:
    """Return the message for a family that is asked for where it makes no sense, and has no fallback that does."""
    if name != "multinomial":
        given = f" given {shorten([parent.name for parent in parents])}" if parents else ""
        return f"{child.name!r}: {name!r} can't be learned for it{given}; choose another family for {child.name!r}"
    number = next(variable.name for variable in (child, *parents) if isinstance(variable, Continuous))
    return (
        f"{child.name!r}: a table of probabilities was asked for, but {number!r} is continuous; roles() discretizes the"
        f" columns for which 'multinomial' is asked: ask it for {number!r} too, or choose another family for"
        f" {child.name!r}"
    )


def check_spec(spec: Any, column: str | None = None) -> str:
    """Return the name of a choice, for a column or for all of them, refusing what is none.

    Examples
    --------
    >>> check_spec("gausian", "x")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'x': potentials='gausian' is not known; did you mean 'gaussian'?
    """
    if isinstance(spec, Fitter):
        return spec.name
    if isinstance(spec, str) and (spec == "auto" or Fitter.registry.find(spec) is not None):
        return spec
    names = list_fitter_names()
    near = difflib.get_close_matches(spec, names, n=1) if isinstance(spec, str) else []
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {shorten(names)}, or give a fitter"
    if isinstance(spec, type) and issubclass(spec, Fitter):
        hint = f"give an object: {spec.__name__}()"
    raise NetworkError(f"{f'{column!r}: ' if column is not None else ''}potentials={spec!r} is not known; {hint}")


def roles(table: Rows, target: str | None = None, potentials: Potentials = "auto") -> dict[str, Role]:
    """Return what each column of a table is in a model; number columns for which tables are asked are discretized.

    Parameters
    ----------
    table : Table
    target : str, optional
        A discrete one guides the discretization of the others.
    potentials : choice, or mapping from columns to choices
        As in `fitter_of`; columns that a mapping leaves out get "auto". "multinomial" on a number column is the request
        to discretize it: by `mdl` where there is a discrete target, else by `equal_frequency`, unless the
        `MultinomialFitter` names another discretizer. A family of numbers that is asked for by its name gets the
        heavy points of the column (`find_heavy_points`) by an `AtomsFitter`, unless it is the target; a fitter object
        is taken as it is.

    Returns
    -------
    dict from column to Role
        In the table's order. Read the table with ``Table(table, variables=[role.variable for role in ...])``, or
        ``table.coded(role.variable)``.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"x": [1, 2, 3, 11, 12, 13], "y": [1, 2, 3, 4, 5, 6], "c": ["a"] * 3 + ["b"] * 3})
    >>> found = roles(table, "c", {"x": "multinomial", "y": "gaussian"})
    >>> found["x"].variable.cuts, found["y"].variable, found["c"].fitter
    ((7.0,), Continuous(name='y', domain=(-inf, inf)), 'auto')
    """
    if target is not None:
        table.variable(target)
    wanted = _resolve_specs(table, potentials)
    table.require_rows(1).require_values()
    for name in table.names:
        _refuse_identifier(table, name)
    variables: dict[str, Variable] = {}
    guide: Discrete | None = None
    # the target first: where it is discretized itself, its intervals guide the others
    for name in sorted(table.names, key=lambda name: name != target):
        variable, spec = table.variable(name), wanted[name]
        if isinstance(variable, Continuous) and check_spec(spec, name) == "multinomial":
            chosen = getattr(spec, "discretizer", None)
            values, codes, weights = table.points(variable, None if name == target else guide)
            discretizer = chosen or (equal_frequency if codes is None else mdl)
            variable = Discrete(name, cuts=tuple(discretizer(values, codes, weights)))
        if isinstance(variable, Continuous) and isinstance(spec, str) and name != target:
            values, _, weights = table.points(variable, None)
            wanted[name] = _add_points(values, weights, spec)
        if name == target and isinstance(variable, Discrete):
            guide = variable
        variables[name] = variable
    return {name: Role(variables[name], wanted[name]) for name in table.names}


def _resolve_specs(table: Rows, potentials: Any) -> dict[str, Spec]:
    if not isinstance(potentials, Mapping):
        check_spec(potentials, "all columns")
        return dict.fromkeys(table.names, potentials)
    for name, spec in potentials.items():
        if name not in table:
            raise TableError(f"potentials: there is no column {name!r}; the columns are {shorten(table.names)}")
        check_spec(spec, name)
    return {name: potentials.get(name, "auto") for name in table.names}


def _add_points(values: Values, weights: Values | None, spec: str) -> Spec:
    """Return a family with the heavy points of a column, if it has some."""
    from hybridbn.fitting.atoms import AtomsFitter, find_heavy_points

    points = find_heavy_points(values, weights)
    return AtomsFitter(points, spec, float(np.nanmax(values) - np.nanmin(values))) if points else spec


def _refuse_identifier(table: Rows, name: str) -> None:
    """Refuse a discrete column in which no value occurs twice, as there is nothing to learn from it."""
    variable = table.variable(name)
    if not isinstance(variable, Discrete) or len(variable) < _IDENTIFIER_ROWS:
        return
    observed = len(table) - table.count_missing(name)
    if observed >= _IDENTIFIER_ROWS and table.is_all_different(name):
        raise TableError(
            f"column {name!r} has a different value in each of the {observed} rows where it has one, as an identifier"
            f" has: {shorten(variable.states, 3)}; leave it out: table.drop({name!r})"
        )


def moments_suffice(fitter: Fitter) -> TypeGuard[GaussianFitter]:
    """Tell whether a fitter learns from nothing but the means and products of its variables; a subclass may read more,
    or learn otherwise.

    Examples
    --------
    >>> from hybridbn.fitting import GaussianFitter
    >>> moments_suffice(GaussianFitter())
    True
    """
    from hybridbn.fitting import GaussianFitter

    return learns_as(fitter, GaussianFitter)


def counts_suffice(fitter: Fitter) -> TypeGuard[MultinomialFitter]:
    """Tell whether a fitter learns from nothing but joint counts of its variables; a subclass may read more, or learn
    otherwise.

    Examples
    --------
    >>> from hybridbn.fitting import MultinomialFitter
    >>> counts_suffice(MultinomialFitter())
    True
    """
    from hybridbn.fitting import MultinomialFitter

    return learns_as(fitter, MultinomialFitter)
