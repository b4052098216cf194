"""Bad inputs: ``CASES`` has the name, the area, a function of a folder that makes it, and what should come of it.

``E:Name`` is an error of the library (by a name that was proposed for it) whose message names the column, node or row,
``W:what`` success with one warning, ``OK:what`` plain success. In every case no result is NaN, infinite or negative, no
bare IndexError, KeyError or ZeroDivisionError comes out, the input stays as it is and no file is left behind.
"""

import os
import zipfile

import numpy as np
import pandas as pd


def _df(**k):
    d = {"x": [1.0, 2, 3, 4, 5, 6], "c": [*list("abab"), "a", "b"], "y": list("uuvvuv")}
    d.update(k)
    return pd.DataFrame(d)


def _w(tmp, name, data):
    p = os.path.join(str(tmp), name)
    with open(p, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return p


def _bomb(tmp):
    p = os.path.join(str(tmp), "bomb.npz")
    with zipfile.ZipFile(p, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", b"\x93NUMPY\x01\x00" + bytes(200 << 20))
    return p


C = CASES = []


def add(i, area, f, ideal):
    C.append((i, area, f, ideal))


D = "data"
add("nan", D, lambda t: _df(x=[1, np.nan, 3, 4, 5, 6.0]), "OK:missing value, learner says how it was used")
add("inf", D, lambda t: _df(x=[1, np.inf, 3, 4, 5, 6.0]), "E:DataError x row 1")
add("-inf", D, lambda t: _df(x=[1, -np.inf, 3, 4, 5, 6.0]), "E:DataError")
add("empty frame", D, lambda t: _df().iloc[:0], "E:DataError 0 rows")
add("no columns", D, lambda t: pd.DataFrame(index=range(3)), "E:DataError")
add(
    "one row",
    D,
    lambda t: _df().iloc[:1],
    "E:DataError minimum rows per continuous node, OK for multinomial with prior",
)
add("one class", D, lambda t: _df(y=["u"] * 6), "W:one class; posterior 1.0")
add(
    "constant column",
    D,
    lambda t: _df(x=[3.0] * 6),
    "E:DataError x constant (or drop=True -> W); never NaN (sklearn GaussianNB 1.9.1 returns all-NaN)",
)
add(
    "all missing column",
    D,
    lambda t: _df(x=[np.nan] * 6),
    "E:DataError x has no observed value (imputers in sklearn drop it silently)",
)
add("all missing object", D, lambda t: _df(c=[None] * 6), "E:DataError")
add("duplicated names", D, lambda t: pd.concat([_df(), _df()[["x"]]], axis=1), "E:DataError duplicated x")
add(
    "unseen category",
    "predict",
    lambda t: (_df(), _df(c=["z"] * 6)),
    'E:EvidenceError names column, value, known states; option unknown="missing" -> marginalised with W',
)
add("extra column", "predict", lambda t: (_df(), _df(q=1)), "OK:ignored")
add("missing column", "predict", lambda t: (_df(), _df().drop(columns="x")), "OK:marginalised with W, or E if strict")
add("columns permuted", "predict", lambda t: (_df(), _df()[["y", "c", "x"]]), "OK:bitwise equal result")
add("dtype drift", "predict", lambda t: (_df(), _df(x=list("123456"))), "E:DataError x was numeric")
add(
    "integer codes",
    D,
    lambda t: _df(c=[0, 1, 0, 1, 2, 2]),
    "W:int column with 3 distinct values: declared kind wins, otherwise documented rule",
)
add("float-coded ints with NaN", D, lambda t: _df(c=[0.0, 1, np.nan, 1, 2, 2]), "OK:same states as the int column")
add("bool", D, lambda t: _df(c=[True, False] * 3), "OK:discrete with states False, True")
add("bool and None", D, lambda t: _df(c=[True, None] * 3), "OK:discrete with missing")
add("datetime", D, lambda t: _df(x=pd.date_range("2020", periods=6)), "E:DataError convert explicitly")
add("tz datetime", D, lambda t: _df(x=pd.date_range("2020", periods=6, tz="UTC")), "E:DataError")
add("timedelta", D, lambda t: _df(x=pd.to_timedelta(range(6), "s")), "E:DataError")
add("NaT", D, lambda t: _df(x=[pd.NaT] * 6), "E:DataError")
add("complex", D, lambda t: _df(x=np.arange(6) + 1j), "E:DataError")
add("Decimal", D, lambda t: _df(x=[__import__("decimal").Decimal(i) for i in range(6)]), "OK:float64")
add("Int64 with NA", D, lambda t: _df(x=pd.array([1, 2, None, 4, 5, 6], dtype="Int64")), "OK:equal to float column")
add("Float64 NaN vs NA", D, lambda t: _df(x=pd.array([1, None, 3, 4, 5, 6], dtype="Float64")), "OK")
add("string[pyarrow]", D, lambda t: _df(c=pd.array(list("ababab"), dtype="string[pyarrow]")), "OK:equal to object")
add(
    "category unused level",
    D,
    lambda t: _df(c=pd.Categorical(list("ababab"), categories=list("abz"))),
    "OK:z kept as a state with prior mass, documented",
)
add(
    "ordered category",
    D,
    lambda t: _df(c=pd.Categorical(list("ababab"), categories=["b", "a"], ordered=True)),
    "OK:state order kept",
)
add("category numeric", D, lambda t: _df(c=pd.Categorical([1, 2] * 3)), "OK:discrete")
add("sparse", D, lambda t: _df(x=pd.arrays.SparseArray([0.0, 0, 1, 0, 2, 3])), "OK:densified")
add(
    "multiindex columns",
    D,
    lambda t: _df().set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), axis=1),
    "E:DataError",
)
add("non-string names", D, lambda t: _df().set_axis([0, 1, 2], axis=1), 'OK or E, documented; never a mix of 0 and "0"')
add("polars", D, lambda t: __import__("polars").from_pandas(_df()), "OK:equal to pandas")
add("arrow table", D, lambda t: __import__("pyarrow").Table.from_pandas(_df()), "OK")
add("list of dicts", D, lambda t: _df().to_dict("records"), "OK or E")
add(
    "mixed types in a column",
    D,
    lambda t: _df(c=["a", 1, 2.5, None, True, "b"]),
    "E:DataError c mixes str,int,float,bool",
)
add('"1" and 1', D, lambda t: _df(c=["1", 1, "1", 1, "1", 1]), "E:DataError")
add(
    '"nan" strings',
    D,
    lambda t: _df(c=["NA", "nan", "", "None", "a", "b"]),
    "OK:ordinary states in Python; CLI has --na-values",
)
add("whitespace states", D, lambda t: _df(c=["a", "a ", " a", "A", "a", "b"]), "OK:four distinct states, W")
add("unicode NFC/NFD", D, lambda t: _df(c=["\u00e9", "e\u0301"] * 3), "OK:two distinct states, W")
add(
    "huge cardinality",
    D,
    lambda t: pd.DataFrame({"c": [f"s{i}" for i in range(200000)], "y": ["u", "v"] * 100000}),
    "E:DataError looks like an identifier; override max_states",
)
add(
    "CPT too large",
    D,
    lambda t: pd.DataFrame({f"c{j}": [f"s{i % 997}" for i in range(2000)] for j in range(6)} | {"y": ["u"] * 2000}),
    "E:ModelError refuses before allocating (cells, bytes)",
)
add(
    "1e308",
    D,
    lambda t: _df(x=[1e308, -1e308, 1e308, 5e307, 1.7e308, 0]),
    "OK:no overflow in range/variance (sklearn GaussianNB gives NaN)",
)
add("1e-308", D, lambda t: _df(x=[1e-308, 2e-308, 3e-308, 4e-308, 5e-324, 0]), "OK or E:DataError width underflows")
add("offset 1e15", D, lambda t: _df(x=1e15 + np.arange(6.0)), "OK:pdf equal to shifted data to 1e-6")
add("ties", D, lambda t: _df(x=[0.0, 0, 0, 0, 0, 1]), "OK:bandwidth > 0")
add("one outlier 1e12", D, lambda t: _df(x=[0.0, 1, 2, 3, 4, 1e12]), "OK:finite")
add("-0.0", D, lambda t: _df(x=[-0.0, 0.0, 1, 2, 3, 4]), "OK")
for n, w in {
    "neg": [-1, 1, 1, 1, 1, 1],
    "zeros": [0] * 6,
    "nan": [np.nan] + [1] * 5,
    "inf": [np.inf] + [1] * 5,
    "short": [1, 1],
}.items():
    add(
        "weights " + n,
        "weights",
        lambda t, w=w: (_df(), w),
        "E:DataError (sklearn GaussianNB accepts negative weights)",
    )
add("weights one zero", "weights", lambda t: (_df(), [0, 1, 1, 1, 1, 1]), "OK:bitwise equal to dropping the row")
add("weights integer", "weights", lambda t: (_df(), [2, 1, 1, 1, 1, 1]), "OK:equal to repeating the row (1e-12)")
for n, e in {
    "outside domain": {"x": 1e9},
    "domain edge": {"x": 6.0},
    "unknown node": {"zz": 1},
    "unknown state": {"c": "q"},
    "nan": {"x": float("nan")},
    "wrong type": {"x": "abc"},
    "interval": {"x": (1, 2)},
    "query in evidence": {"y": "u"},
    "none": {"c": None},
    "case": {"C": "a"},
}.items():
    add(
        "evidence " + n,
        "evidence",
        lambda t, e=e: e,
        {
            "domain edge": "OK:closed at the right end",
            "outside domain": "E:EvidenceError with the domain (policy option clip/zero)",
            "query in evidence": "OK:degenerate posterior",
        }.get(n, "E:EvidenceError"),
    )
add(
    "contradictory evidence",
    "evidence",
    lambda t: {"net": "asia", "evidence": {"lung": "yes", "either": "no"}},
    "E:ImpossibleEvidence (pyAgrum: IncompatibleEvidence); never NaN; log_evidence -inf on request",
)
add("P(e) = 1e-400", "evidence", lambda t: "naive Bayes with 500 attributes at the tails", "OK:log space")
for n, s in {
    "cycle": "E:ModelError lists the cycle",
    "self loop": "E:ModelError",
    "missing CPT": "E:ModelError node",
    "CPT row sums 1.2": "E:ModelError row; |sum-1|<=1e-6 renormalised silently, <=1e-2 with W (pyAgrum "
    "3.3.1 accepts 1.2 silently in inference)",
    "NaN parameter": "E:ModelError (pyAgrum returns NaN posteriors)",
    "negative probability": "E:ModelError (pyAgrum returns -0.5)",
    "MTE negative on a piece": "E:ModelError with min value and location",
    "MTE gap between pieces": "E:ModelError",
    "MTE overlapping pieces": "E:ModelError",
    "MTE mass 1.24": "E:ModelError or normalize=True (published rounded example has masses 1.24 and 2.76)",
    "parent order differs": "OK",
    "name clash node/state": "OK",
    'name "": ': "E:ModelError",
    "non-ASCII name": "OK:round-trips in every format",
    "name with newline/quote/slash": "OK in JSON; escaped or refused on BIF export (pyAgrum cannot read Asy/Patch in "
    "child.bif)",
    "MultiGraph": "E:ModelError",
    "undirected": "E:ModelError",
    "10^5-node chain": "OK:no recursion limit",
}.items():
    add("model " + n, "model", None, s)
F = "file"
for n, b in {
    "empty": b"",
    "truncated json": b'{"nodes": [',
    "deep json": b"[" * 100000,
    "json NaN": b'{"p": NaN}',
    "json 1e999": b'{"p": 1e999}',
    "json duplicate keys": b'{"p":1,"p":2}',
    "json huge int": b"9" * 5000,
    "pickle": b"\x80\x04\x95cos\nsystem\n",
    "not utf-8": b"\xff\xfe{}",
    "future version": b'{"format":"hybridbn","version":99}',
}.items():
    add(
        "file " + n,
        F,
        lambda t, n=n, b=b: _w(t, "m.hbn", b),
        "E:FormatError, file name and reason; no code executed; RSS < 200 MB",
    )
add("file npz bomb", F, _bomb, "E:FormatError before inflating: declared sizes summed against a cap")
add(
    "file npy 80 GB header",
    F,
    lambda t: _w(
        t,
        "a.npy",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,), }".ljust(128) + b"\n",
    ),
    "E:FormatError",
)
add(
    "zip slip",
    F,
    lambda t: (lambda p: (zipfile.ZipFile(p, "w").writestr("../../evil", b"x"), p)[1])(os.path.join(str(t), "s.zip")),
    "E:FormatError",
)
for n, b in {
    "ragged": b"a,b,c\n1,2,3\n4,5\n6,7,8,9\n",
    "open quote": b'a,b\n1,"x\n2,y\n',
    "latin1": "a,b\n1,caf\u00e9\n".encode("latin1"),
    "utf16": "a,b\n1,2\n".encode("utf-16"),
    "bom": b"\xef\xbb\xbfa,b\n1,2\n",
    "dup header": b"a,a\n1,2\n",
    "nul": b"a,b\n1,\x00\n",
    "crlf+cr": b"a,b\r\n1,2\r3,4\n",
    "late text": b"a,b\n" + b"1,2\n" * 30000 + b"oops,3\n",
    "decimal comma": b"a;b\n1,5;2\n",
    "thousands": b'a,b\n"1,000",2\n',
    "header only": b"a,b\n",
    "empty": b"",
    "no final newline": b"a,b\n1,2",
    "formula": b"a,b\n=1+1,2\n",
    "float text": b"a,b\n0.1,1e-320\n",
}.items():
    add(
        "csv " + n,
        "csv",
        lambda t, n=n, b=b: _w(t, "d.csv", b),
        {
            "bom": "OK",
            "crlf+cr": "OK",
            "no final newline": "OK",
            "float text": "OK:shortest repr preserved for untouched cells",
            "formula": "OK:verbatim",
            "header only": "OK:header-only output",
            "dup header": "E:DataError",
        }.get(n, "E:DataError with line number (or --on-bad-line=reject FILE)"),
    )
add(
    "sql table grows",
    "sql",
    None,
    "OK:one snapshot/transaction; row count checked at the end, E:DataError if no snapshot isolation and count changed",
)
add("sql column dropped midway", "sql", None, "E:DataError")
add("sql name injection", "sql", lambda t: 'x"; drop table t; --', "OK:quoted identifier or E")
add("output exists", "out", None, "E:OutputError unless --overwrite")
add("output == input", "out", None, "E:OutputError or safe replace; never truncates the input")
add("disk full", "out", None, "E:OutputError exit 74, no partial output (faultlab enospc)")
add("kill -9", "out", None, "resume, byte-equal (faultlab kill)")
add("Ctrl-C", "out", None, "exit 130, parts kept, message how to resume")
add("two writers", "out", None, "loser exit 73 (faultlab two)")
add("stdout closed (| head)", "out", None, "exit 141/0, no traceback")
