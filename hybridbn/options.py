"""Arguments of public functions: the options of inference (how exact, how large, and what becomes of impossible rows)
and of imputation, and checks of counts, random states, sequences of names and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from hybridbn.errors import HybridBNError, TableError
from hybridbn.jobs import check_jobs
from hybridbn.registry import LazyModule

if TYPE_CHECKING:
    import numpy as np

    from hybridbn.variables import Values
else:
    np = LazyModule("numpy")  # so that the command shows its help at once

# -- checks of arguments ----------------------------------------------------------------------------------------------

_MOST = 2**40
"""A larger count can't be meant: nothing of that size fits into memory."""


def check_count(number: Any, what: str, least: int = 0, error: type[HybridBNError] = TableError) -> int:
    """Return a whole number that is not too small; raise an error for anything else.

    Examples
    --------
    >>> check_count(3.0, "the number of rows")
    3
    >>> check_count("3", "the number of rows")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the number of rows must be a whole number of at least 0, not '3'
    """
    is_number = isinstance(number, int | float | np.integer | np.floating) and not isinstance(number, bool)
    if not is_number or not least <= number <= _MOST or number != int(number):
        raise error(f"{what} must be a whole number of at least {least}, not {number!r:.80}")
    return int(number)


def check_choice(
    value: object,
    what: str,
    choices: tuple[str | None, ...],
    error: type[HybridBNError] = TableError,
    hint: str = "",
) -> None:
    """Refuse what is none of a few words; the hint tells what else was perhaps meant.

    Examples
    --------
    >>> check_choice("gone", "missing", ("available", "em"))
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: missing must be 'available' or 'em', not 'gone'
    """
    if not isinstance(value, str | None) or value not in choices:
        *others, last = map(repr, choices)
        raise error(f"{what} must be {', '.join(others)} or {last}, not {value!r:.80}{hint}")


def check_level(level: Any) -> list[float]:
    """Refuse what is no probability of an interval; return the levels of the quantiles between which it is central."""
    if not isinstance(level, Real) or not 0 < level < 1:  # type: ignore[operator]
        raise TableError(f"the probability of an interval lies between 0 and 1; found {level!r}")
    return [(1 - level) / 2, (1 + level) / 2]  # type: ignore[operator]


def make_generator(random_state: Any) -> np.random.Generator:
    """Return the generator that a random state stands for; raise `TableError` where numpy takes it for none.

    Examples
    --------
    >>> make_generator(3).integers(10)
    np.int64(8)
    >>> make_generator("3")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: random_state must be a whole number that is not negative, a numpy Generator or None, \
not '3'
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise TableError(
            "random_state must be a whole number that is not negative, a numpy Generator or None, not "
            f"{random_state!r:.80}"
        ) from None


def list_items(items: Any, what: str) -> list[Any]:
    """Return a sequence as a list, a text as its only item; raise `TableError` for what is no sequence.

    Examples
    --------
    >>> list_items(("a", "b"), "names"), list_items("ab", "names")
    (['a', 'b'], ['ab'])
    >>> list_items(None, "the names of the targets")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the names of the targets must be text or a sequence of it, not None
    """
    if isinstance(items, str):
        return [items]
    with suppress(TypeError):  # of an array without dimensions
        if isinstance(items, Iterable) and not isinstance(items, bytes | Mapping):
            return list(items)
    raise TableError(f"{what} must be text or a sequence of it, not {items!r:.80}")


def as_numbers(values: Any, what: str) -> Values:
    """Return an array of numbers; raise `TableError` for text, complex numbers and lists of uneven lengths.

    Examples
    --------
    >>> as_numbers([1, 2.5], "the points")
    array([1. , 2.5])
    >>> as_numbers("zz", "the points")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the points must be numbers, not 'zz'
    """
    with suppress(TypeError, ValueError, OverflowError):
        array = np.asarray(values)
        texts = array.dtype == object and any(isinstance(item, str | bytes) for item in array.flat)
        if array.dtype.kind in "biufO" and not texts:
            return array.astype(np.float64)
    raise TableError(f"{what} must be numbers, not {values!r:.80}")


# -- options ----------------------------------------------------------------------------------------------------------

SAMPLED_SECONDS = 60.0
"""What is sampled takes about so long, if nobody says otherwise."""
CELLS_PER_SECOND = 5e7
"""The work that a second allows, in cells of tables. This is what `Options.seconds` means for plans, whatever the
machine, so that answers and refusals are the same everywhere; what is sampled looks at the clock besides.
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How exact inference is, how large its tables may get, and what becomes of impossible rows.

    Whatever asks a network for something takes ``options=Options(...)``, or these attributes as single keywords, which
    count more where both are given.

    Attributes
    ----------
    tolerance : float
        Wanted error of probabilities where quadrature is needed; closed forms are exact up to rounding. What is sampled
        stops as soon as no bound is further from its probability, if that is before the time is over.
    max_bytes : float
        Largest table that elimination may make before `TooWide` is raised.
    impossible : {"raise", "nan"}
        Rows whose evidence has probability zero raise `ImpossibleEvidence`, or have a posterior of NaN.
    n_jobs : int, optional
        Threads that share the rows of a table (-1: as many as there are processors), with the same results to the last
        bit; by default one. Functions of `Density` are then called by several threads at a time.
    beyond : {None, "slice", "bound"}
        What to do where a table would take more than `max_bytes`. None: raise `TooWide`. "slice": answer for each
        combination of states of a few variables (of nodes, if they are continuous), and add up; exact, but in the worst
        case the time grows without limit. "bound": the variables that would be sliced are sampled, and
        `posterior.bounds` tell between which limits each probability lies with a confidence of 95 %, for any number of
        draws, and `posterior.error` how far these are from it (NaN for numbers and several variables, which have no
        bounds); `posterior.log_evidence_bounds` are limits of the log probability of the evidence. Where the bounds are
        wide, `posterior.asymptotic_bounds` are those of a large sample, without a guarantee. A number below the leaf
        of trees that test missing numbers, as in a model tree, is averaged over 128 draws of these, at once and
        without bounds: `posterior.error` tells how far that may be off.
    seconds : float, optional
        About how long an answer for one row of evidence may take; plans count 50 million cells of tables as a second,
        on any machine. With "bound", 60 by default; what fits into
        `max_bytes` and is predicted to take longer is sampled, too. With "slice", a plan that is predicted to take
        longer raises `TooWide`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, d = hb.Discrete("c", states=("a", "b")), hb.Discrete("d", states=("a", "b"))
    >>> net = hb.Network([
    ...     hb.Multinomial(c, table=[1.0, 0.0]),
    ...     hb.Multinomial(d, parents=(c,), table=[[1.0, 0.0], [0.0, 1.0]]),
    ... ])
    >>> net.posterior("c", {"d": "b"}, options=hb.Options(impossible="nan")).probabilities
    array([nan, nan])
    """

    tolerance: float = 1e-9
    max_bytes: float = 2.0 * 2**30
    impossible: Literal["raise", "nan"] = "raise"
    n_jobs: int | None = None
    beyond: Literal["slice", "bound"] | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.impossible, "impossible", ("raise", "nan"))
        if not _is_number(self.tolerance) or not 0 < self.tolerance < 1:
            raise TableError(f"tolerance must lie between 0 and 1; found {self.tolerance!r}")
        if not _is_number(self.max_bytes) or not self.max_bytes > 0:
            raise TableError(f"max_bytes must be a positive number of bytes; found {self.max_bytes!r}")
        check_jobs(self.n_jobs)
        check_choice(self.beyond, "beyond", (None, "slice", "bound"))
        if self.seconds is not None and (not _is_number(self.seconds) or not self.seconds > 0):
            raise TableError(f"seconds must be a positive number or None; found {self.seconds!r}")

    @property
    def seconds_per_row(self) -> float:
        """About how many seconds an answer for one row may take."""
        if self.beyond is None or (self.beyond == "slice" and self.seconds is None):
            return math.inf
        return SAMPLED_SECONDS if self.seconds is None else float(self.seconds)

    @property
    def cells_per_row(self) -> float:
        """How much work the answer for one row may take, in cells of tables."""
        return CELLS_PER_SECOND * self.seconds_per_row

    @property
    def jobs(self) -> int:
        """How many threads run at the same time."""
        return check_jobs(self.n_jobs)


Strategy: TypeAlias = Literal["draw", "mean", "most_probable"]
"""How cells are imputed."""


@dataclass(frozen=True, kw_only=True)
class ImputationOptions:
    """The options of imputation, which are those of `hybridbn.impute` (see there), `Imputer` and ``hybridbn impute``.

    The command's options have the metadata of these fields.

    Examples
    --------
    >>> ImputationOptions(rounds=3).donors
    True
    """

    strategy: Strategy = field(
        default="draw",
        metadata={
            "choices": ("draw", "mean", "most_probable"),
            "help": "draw (default) keeps variances and correlations; mean and most_probable are the best guess for"
            " single cells, and wrong for any estimate",
        },
    )
    structure: Any = "auto"
    target: str | None = None
    potentials: Any = "auto"
    include: str | Iterable[str] = field(
        default=(),
        metadata={
            "metavar": "A,B",
            "help": "columns to complete although they look like identifiers, from their own values",
        },
    )
    bounds: Any = field(
        default=None,
        metadata={
            "metavar": "A=LOW:HIGH",
            "help": "limits of a column, numbers or dates (either may be left out), or 'observed' for the observed"
            " range of all columns",
        },
    )
    integers: str | Iterable[str] | None = None
    full_precision: bool = field(
        default=False,
        metadata={
            "help": "leave imputed numbers unrounded; by default they have as many decimals as nearly all of the"
            " observed ones of their column (six at most)"
        },
    )
    donors: bool = field(
        default=True,
        metadata={
            "help": "draw numbers that are far from normal (skewed, with spikes) from normal distributions, too,"
            " instead of taking observed ones from similar rows"
        },
    )
    rules: bool = field(
        default=True,
        metadata={
            "help": "let imputed numbers be what none of their column is (below zero, no code, no clock time), and"
            " break the sums and orders that the observed ones keep"
        },
    )
    rounds: int | None = field(
        default=None,
        metadata={
            "metavar": "N",
            "help": "rounds of drawing and learning; by default until drawn cells no longer drift",
        },
    )
    random_state: Any = None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


Marks: TypeAlias = "Mapping[str, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any] | float | None"
"""Values that mark missing cells: by column, or the same in all columns."""


class KindKeywords(TypedDict, total=False):
    """The keywords that say what columns are whose types don't tell, as in `hybridbn.Table`."""

    discrete: str | Iterable[str]
    continuous: str | Iterable[str]
    ordered: str | Iterable[str]


class ColumnKeywords(KindKeywords, total=False):
    """What columns are, and which of their values mark missing cells; the keywords of whatever learns from data."""

    missing: Marks


def list_given(columns: ColumnKeywords) -> list[str]:
    """Return which keywords say something of some columns.

    Examples
    --------
    >>> list_given({"discrete": "c", "ordered": (), "missing": None})
    ['discrete']
    """
    return [
        name for name, value in columns.items() if value is not None and (not isinstance(value, Sized) or len(value))
    ]


def split_missing(
    missing: Any, strategies: tuple[str, ...], error: type[HybridBNError] = TableError
) -> tuple[str, Marks]:
    """Return what becomes of rows with missing cells, by default the first strategy, and what marks these cells.

    Examples
    --------
    >>> split_missing("em", ("available", "em")), split_missing({"sex": [9]}, ("available", "em"))
    (('em', None), ('available', {'sex': [9]}))
    """
    if not isinstance(missing, str):
        return strategies[0], missing
    hint = (
        f"; values that mark missing cells are given in a list, or by column: missing={{'column': [{missing!r:.80}]}}"
    )
    check_choice(missing, "missing", strategies, error, hint)
    return missing, None


class PrecisionKeywords(TypedDict, total=False):
    """The keywords of methods that have no choice about impossible rows; see `Options`."""

    tolerance: float
    max_bytes: float
    n_jobs: int | None
    beyond: Literal["slice", "bound"] | None
    seconds: float | None


class OptionKeywords(PrecisionKeywords, total=False):
    """The attributes of `Options` as keywords."""

    impossible: Literal["raise", "nan"]


class ViewKeywords(TypedDict, total=False):
    """The keywords of `Network.plot` that show a part of a network; see `hybridbn.pictures.plot_network`."""

    around: str | None
    steps: int


DEFAULT = Options()
_NAMES = frozenset(field.name for field in fields(Options))


def resolve_options(
    function: str, options: Options | None, keywords: Any, *, default: Options = DEFAULT, **fixed: Any
) -> Options:
    """Return the options that a public function was given.

    Parameters
    ----------
    function : its name, for the message about an unknown keyword
    options : what it was given as `options`
    keywords : what it was given as single keywords; these replace attributes of `options`
    default : what counts without `options`
    **fixed : attributes about which its callers have no choice; they are no keywords of the function

    Examples
    --------
    >>> resolve_options("sample", None, {"tolerance": 1e-6}, impossible="raise").tolerance
    1e-06
    >>> resolve_options("sample", None, {"impossible": "nan"}, impossible="raise")
    Traceback (most recent call last):
        ...
    TypeError: sample() got an unexpected keyword argument 'impossible'
    """
    if options is None:
        options = default
    elif not isinstance(options, Options):
        raise TypeError(f"options of {function}() must be hybridbn.Options, not {type(options).__name__}")
    if not keywords and not fixed:  # as for each of many single cases
        return options
    for name in keywords:
        if name not in _NAMES or name in fixed:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    changed = {name: value for name, value in (keywords | fixed).items() if getattr(options, name) != value}
    return replace(options, **changed) if changed else options
