"""Small public tables to try things on, which come with the package: each function reads one as a pandas frame.

===================  =====  =======  ======  =====================================================
function             rows   columns  holes   what it is
===================  =====  =======  ======  =====================================================
`load_heart`         294    12       225     patients with suspected heart disease, mixed columns
`load_votes`         435    17       392     votes of the United States Congress, all discrete
`load_cars`          398    8        6       fuel consumption of cars: a continuous response
`load_economy`       203    9        none    quarters of the United States economy: a time series
`load_market`        500    4        none    simulated from a network that is known
===================  =====  =======  ======  =====================================================
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_cars", "load_economy", "load_heart", "load_market", "load_votes"]


def load_heart() -> pd.DataFrame:
    """Load 294 patients with suspected heart disease: six numbers, six categories, 225 holes.

    Returns
    -------
    pandas.DataFrame
        ``disease`` says whether a vessel is narrowed by more than half; ``pain``, ``ecg``, ``angina``, ``depression``
        (of the ST segment) and ``slope`` are findings at rest and under exercise, ``rate`` is the greatest heart rate.

    Notes
    -----
    The Hungarian part of the Heart Disease data of the UCI Machine Learning Repository (Janosi, Steinbrunn, Pfisterer
    and Detrano 1989, https://doi.org/10.24432/C52P4X), collected at the Hungarian Institute of Cardiology, Budapest,
    by Andras Janosi, M.D. License: CC BY 4.0. Changes: codes are written out as words, two columns that are missing
    almost everywhere are left out. All holes are those of the original.

    Examples
    --------
    >>> import hybridbn as hb
    >>> heart = hb.datasets.load_heart()
    >>> heart.shape, int(heart.isna().sum().sum())
    ((294, 12), 225)
    """
    return _load("heart")


def load_votes() -> pd.DataFrame:
    """Load the votes of 435 members of the United States House of Representatives in 1984: 17 categories, 392 holes.

    Returns
    -------
    pandas.DataFrame
        ``party``, and for each of 16 questions "yea", "nay", or a hole where the position is not known. Such a hole is
        no accident: many of them are abstentions.

    Notes
    -----
    Congressional Voting Records of the UCI Machine Learning Repository (Schlimmer 1987,
    https://doi.org/10.24432/C5C01P), taken from the Congressional Quarterly Almanac of 1984. License: CC BY 4.0.
    Changes: the party is the first column, names have underscores, and "y" and "n" are written out.

    Examples
    --------
    >>> import hybridbn as hb
    >>> votes = hb.datasets.load_votes()
    >>> net = hb.structures.tan(votes, "party")
    >>> posterior = net.posterior("party", {"crime": "yea", "immigration": "yea"})  # 14 are not known
    >>> round(posterior["democrat"], 2)
    0.33
    """
    return _load("votes")


def load_cars() -> pd.DataFrame:
    """Load 398 cars of the years 1970 to 1982: the response is ``mpg``, miles per gallon; 6 holes in ``horsepower``.

    Returns
    -------
    pandas.DataFrame
        ``displacement`` is in cubic inches, ``weight`` in pounds, ``acceleration`` in seconds from 0 to 60 miles an
        hour; ``origin`` is one of "usa", "europe", "japan".

    Notes
    -----
    Auto MPG of the UCI Machine Learning Repository (Quinlan 1993, https://doi.org/10.24432/C5859H), from the StatLib
    library of Carnegie Mellon University. License: CC BY 4.0. Changes: origins are written out, years have four digits,
    the cars' names are left out.

    Examples
    --------
    >>> import hybridbn as hb
    >>> cars = hb.datasets.load_cars()
    >>> net = hb.structures.regression(cars, "mpg")
    >>> posterior = net.posterior("mpg", {"weight": 2500, "year": 1980, "origin": "japan"})  # the rest is unknown
    >>> 25 < posterior.mean() < 35
    True
    """
    return _load("cars")


def load_economy() -> pd.DataFrame:
    """Load 203 quarters of the economy of the United States, from 1959 to the third quarter of 2009: a time series.

    Returns
    -------
    pandas.DataFrame
        ``quarter`` is a date, its first day; ``gdp``, ``consumption`` and ``investment`` are in billions of dollars of
        2005, ``prices`` is the consumer price index, ``money`` is M1 in billions of dollars, ``bill_rate``,
        ``unemployment`` and ``inflation`` are in percent.

    Notes
    -----
    Federal Reserve Economic Data of the Federal Reserve Bank of St. Louis, and the Bureau of Labor Statistics, as
    compiled by Skipper Seabold for statsmodels. License: public domain. Changes: nine of the columns, with other names;
    the quarter is a date.

    Examples
    --------
    What follows from what is learned where last quarter's numbers are columns of their own:

    >>> import hybridbn as hb
    >>> economy = hb.datasets.load_economy()
    >>> economy["last"] = economy["unemployment"].shift()
    >>> net = hb.fit("last -> unemployment <- inflation", economy, potentials="gaussian")
    >>> round(net.posterior("unemployment", {"last": 8.0}).mean(), 1)
    8.0
    """
    import pandas as pd

    frame = _load("economy")
    return frame.assign(quarter=pd.to_datetime(frame["quarter"]))


def load_market() -> pd.DataFrame:
    """Load 500 rows that were drawn from a known network: is a crop bought, whose price depends on it and a subsidy?

    Returns
    -------
    pandas.DataFrame

    Notes
    -----
    A subsidy is given with probability 0.3; the crop is normal with mean 5 and variance 1; the price is normal with
    mean 16 - crop, or 12 - crop where there is a subsidy, and variance 1; it is bought with probability
    1 / (1 + exp(price - 9)). Numbers are rounded to two decimals. Subsidy, crop, price and buyer are
    a common example (Murphy 1999, Uncertainty in Artificial Intelligence 15); the numbers are ours. License: MIT, as
    that of the library.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.fit("subsidy -> price <- crop; price -> buy", hb.datasets.load_market(), potentials="gaussian")
    >>> net.potential("price").coefficients.round(1).tolist()
    [[-1.0], [-1.0]]
    """
    return _load("market")


def _load(name: str) -> pd.DataFrame:
    from hybridbn.tables.formats import read_table

    with as_file(files(__name__).joinpath(f"{name}.csv")) as path:
        return read_table(path).to_pandas()
