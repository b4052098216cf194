"""Posteriors of small hybrid Bayesian networks: simple, slow, and independent of any library under test.

A network is a list of ``Node`` objects. Each holds one callable, its conditional distribution:
``Node("B", states=["s", "u"], parents=[], f=lambda v: {...}[v])``, the probability of ``v`` given the parents, or
``Node("D", domain=(-2.0, 10.0), parents=["B", "E"], f=lambda v, B, E: ...)``, the density. It gets the node's own value
first, then its parents by keyword, and may take scalars only or arrays. ``breaks`` are the points where the function is
not smooth in the node's own value, or where panels should be refined (narrow Gaussians); the cut points of a continuous
parent must be among that parent's breaks.

``posterior(net, query, evidence, grid=None, n=12)`` gives ``p``, a mapping of states to probabilities, or ``pdf`` on
``grid``, ``mean``, ``var`` and ``cdf(x)``; ``log_evidence``, and ``err``, the change when the nodes of each panel are
doubled. With ``backend="gl"`` every hidden continuous variable is replaced by composite Gauss-Legendre nodes, before
variable elimination in ``np.longdouble``; good for up to three continuous variables in a factor. With ``backend="mp"``
integrals are nested ``mpmath.quad``, for up to two hidden continuous variables, whose callables take ``mpf``. Only the
ancestors of the query and the evidence are used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

LD = np.longdouble


@dataclass
class Node:
    name: str
    f: Callable
    parents: Sequence[str] = ()
    states: Sequence | None = None
    domain: tuple | None = None
    breaks: Sequence[float] = ()

    def __post_init__(self):
        if (self.states is None) == (self.domain is None):
            raise ValueError(f"{self.name}: give exactly one of states, domain")
        if self.domain is not None:
            lo, hi = self.domain
            if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
                raise ValueError(f"{self.name}: the oracle needs a finite domain lo<hi; cut the tails explicitly")


@dataclass
class Result:
    query: str
    p: dict | None = None
    grid: np.ndarray | None = None
    pdf: np.ndarray | None = None
    mean: float | None = None
    var: float | None = None
    log_evidence: float | None = None
    err: float | None = None
    _x: np.ndarray | None = field(default=None, repr=False)
    _w: np.ndarray | None = field(default=None, repr=False)
    _d: np.ndarray | None = field(default=None, repr=False)

    def expect(self, g):
        """E[g(X)] of a continuous query"""
        return float((self._w * self._d * np.array([g(float(x)) for x in self._x], dtype=LD)).sum())


class ZeroEvidence(ValueError):
    """the evidence has probability/density zero under the network"""


def _relevant(net, names):
    out, st = set(), list(names)
    while st:
        x = st.pop()
        if x not in out:
            out.add(x)
            st += list(net[x].parents)
    return out


def _panels(node, n):
    lo, hi = node.domain
    b = sorted({float(lo), float(hi), *[float(x) for x in node.breaks if lo < x < hi]})
    gx, gw = np.polynomial.legendre.leggauss(n)
    xs, ws = [], []
    for a, c in itertools.pairwise(b):
        xs.append((c - a) / 2 * gx + (a + c) / 2)
        ws.append((c - a) / 2 * gw)
    return np.concatenate(xs), np.concatenate(ws).astype(LD)


def _evaluate(node, axes):
    """axes: {var: 1-d list/array of values}; returns array over [parents..., self] in the order given by axes keys"""
    keys = list(axes)
    shape = tuple(len(axes[k]) for k in keys)
    numeric = all(isinstance(axes[k], np.ndarray) for k in keys)

    def scalar(idx):
        v = {k: axes[k][i] for k, i in zip(keys, idx, strict=False)}
        own = v.pop(node.name)
        return node.f(own, **v)

    if numeric and np.prod(shape) > 64:
        try:  # vectorised attempt, spot-checked against scalar calls
            v = {
                k: np.asarray(axes[k]).reshape([-1 if j == i else 1 for j in range(len(keys))])
                for i, k in enumerate(keys)
            }
            own = v.pop(node.name)
            with np.errstate(all="ignore"):
                out = np.broadcast_to(np.asarray(node.f(own, **v), dtype=float), shape)
            rng = np.random.default_rng(0)
            for _ in range(12):
                idx = tuple(int(rng.integers(s)) for s in shape)
                if not np.isclose(float(out[idx]), float(scalar(idx)), rtol=1e-12, atol=1e-300):
                    raise ValueError
            return np.array(out, dtype=LD)
        except Exception:
            pass
    disc = [k for k in keys if not isinstance(axes[k], np.ndarray)]
    if disc and len(disc) < len(keys) and not numeric:  # loop over discrete configurations, vectorise the rest
        out = np.empty(shape, dtype=LD)
        cont = [k for k in keys if k not in disc]
        for combo in itertools.product(*[range(len(axes[k])) for k in disc]):
            fixed = {k: axes[k][i] for k, i in zip(disc, combo, strict=False)}
            sub = {k: axes[k] for k in cont}
            node2 = Node(
                node.name if node.name in cont else cont[0],
                (lambda own, _f=fixed, _n=node, _c=cont, **kw: _n.f(own, **{**_f, **kw}))
                if node.name in cont
                else (
                    lambda own, _f=fixed, _n=node, _c0=cont[0], **kw: _n.f(
                        _f[_n.name], **{**{a: b for a, b in _f.items() if a != _n.name}, _c0: own, **kw}
                    )
                ),
                domain=(0.0, 1.0),
            )
            arr = _evaluate(node2, {node2.name: sub[node2.name], **{k: sub[k] for k in cont if k != node2.name}})
            order = [node2.name] + [k for k in cont if k != node2.name]
            arr = arr.transpose([order.index(k) for k in cont])
            ix = tuple(combo[disc.index(k)] if k in disc else slice(None) for k in keys)
            out[ix] = arr
        return out
    out = np.empty(shape, dtype=LD)
    for idx in np.ndindex(*shape):
        out[idx] = LD(float(scalar(idx)))
    return out


def _expand(vs, arr, allv, sizes):
    perm = [vs.index(x) for x in allv if x in vs]
    arr = arr.transpose(perm) if arr.ndim else arr
    return arr.reshape([sizes[x] if x in vs else 1 for x in allv])


def _run(net, query, evidence, grid, n):
    rel = _relevant(net, [query, *evidence])
    hidden_c = [x for x in rel if net[x].domain is not None and x not in evidence]
    X, W = {}, {}
    for x in hidden_c:
        X[x], W[x] = _panels(net[x], n)
    nq = None
    if query in X:
        nq = len(X[query])
        if grid is not None:
            X[query] = np.concatenate([X[query], np.asarray(grid, float)])
    axes = {}
    for x in rel:
        nd = net[x]
        if x in evidence:
            axes[x] = np.array([float(evidence[x])]) if nd.domain is not None else [evidence[x]]
            if nd.domain is not None and not (nd.domain[0] <= evidence[x] <= nd.domain[1]):
                raise ZeroEvidence(f"{x}={evidence[x]} outside {nd.domain}")
            if nd.domain is None and evidence[x] not in list(nd.states):
                raise ZeroEvidence(f"{x}={evidence[x]!r} is not a state")
        else:
            axes[x] = X[x] if x in X else list(nd.states)
    sizes = {x: len(axes[x]) for x in rel}
    F, logz = [], 0.0
    for x in sorted(rel):
        keys = [*net[x].parents, x]
        a = _evaluate(net[x], {k: axes[k] for k in keys})
        if np.isnan(a).any():
            raise ValueError(f"{x}: callable returned NaN")
        m = np.abs(a).max()
        if m == 0:
            raise ZeroEvidence(f"factor of {x} vanishes under the evidence")
        F.append((keys, a / m))
        logz += float(np.log(m))
    todo = {x for x in rel if x != query}
    while todo:

        def cost(v, F=F):
            s = set().union(*[set(k) for k, _ in F if v in k])
            return np.prod([float(sizes[t]) for t in s])

        v = min(sorted(todo), key=cost)
        sel = [f for f in F if v in f[0]]
        F = [f for f in F if v not in f[0]]
        allv = [v, *sorted(set().union(*[set(k) for k, _ in sel]) - {v})]
        g = np.ones([1] * len(allv), dtype=LD)
        for k, a in sorted(sel, key=lambda f: f[1].size):
            g = g * _expand(k, a, allv, sizes)
        g = np.tensordot(W[v], g, axes=(0, 0)) if v in W else g.sum(axis=0)
        m = np.abs(g).max()
        if not m > 0:
            raise ZeroEvidence("evidence has probability 0")
        F.append((allv[1:], g / m))
        logz += float(np.log(m))
        todo.discard(v)
    d = np.ones(sizes[query], dtype=LD)
    for k, a in F:
        d = d * a.reshape(-1) if k else d * LD(a)
    z = (W[query] * d[:nq]).sum() if query in X else d.sum()
    if not z > 0:
        raise ZeroEvidence("evidence has probability 0")
    d = d / z
    lz = logz + float(np.log(z))
    if query in evidence:
        return Result(
            query,
            p={evidence[query]: 1.0} if net[query].domain is None else None,
            mean=float(evidence[query]) if net[query].domain is not None else None,
            var=0.0 if net[query].domain is not None else None,
            log_evidence=lz,
        )
    if query in X:
        x, w, dd = X[query][:nq].astype(LD), W[query], d[:nq]
        mean = (w * dd * x).sum()
        var = (w * dd * (x - mean) ** 2).sum()
        return Result(
            query,
            grid=None if grid is None else np.asarray(grid, float),
            pdf=None if grid is None else d[nq:].astype(float),
            mean=float(mean),
            var=float(var),
            log_evidence=lz,
            _x=x,
            _w=w,
            _d=dd,
        )
    return Result(query, p={s: float(v) for s, v in zip(net[query].states, d, strict=False)}, log_evidence=lz)


def _run_mp(net, query, evidence, grid):
    import mpmath as mp

    rel = _relevant(net, [query, *evidence])
    order, done = [], set()
    while len(order) < len(rel):
        for x in sorted(rel):
            if x not in done and all(p in done for p in net[x].parents):
                order.append(x)
                done.add(x)
    hid_d = [x for x in order if x not in evidence and net[x].domain is None and x != query]
    hid_c = [x for x in order if x not in evidence and net[x].domain is not None and x != query]

    def joint(vals):
        r = mp.mpf(1)
        for x in order:
            r *= net[x].f(vals[x], **{p: vals[p] for p in net[x].parents})
            if r == 0:
                return r
        return r

    def pts(x):
        return sorted(
            {
                mp.mpf(net[x].domain[0]),
                mp.mpf(net[x].domain[1]),
                *[mp.mpf(b) for b in net[x].breaks if net[x].domain[0] < b < net[x].domain[1]],
            }
        )

    ev = {k: (mp.mpf(v) if net[k].domain is not None else v) for k, v in evidence.items()}

    def marg(qv):
        tot = mp.mpf(0)
        for c in itertools.product(*[net[x].states for x in hid_d]):
            base = {**ev, **dict(zip(hid_d, c, strict=False)), query: qv}

            def go(i, vals):
                if i == len(hid_c):
                    return joint(vals)
                return mp.quad(lambda t: go(i + 1, {**vals, hid_c[i]: t}), pts(hid_c[i]))

            tot += go(0, base)
        return tot

    if net[query].domain is None:
        v = [marg(s) for s in net[query].states]
        z = sum(v)
        if z == 0:
            raise ZeroEvidence("evidence has probability 0")
        return Result(query, p={s: x / z for s, x in zip(net[query].states, v, strict=False)}, log_evidence=mp.log(z))
    P = pts(query)
    memo = {}

    def m(t):
        if t not in memo:
            memo[t] = marg(t)
        return memo[t]

    z = mp.quad(m, P)
    if z == 0:
        raise ZeroEvidence("evidence has probability 0")
    mean = mp.quad(lambda t: t * m(t), P) / z
    var = mp.quad(lambda t: (t - mean) ** 2 * m(t), P) / z
    return Result(
        query,
        grid=grid,
        pdf=None if grid is None else [m(mp.mpf(g)) / z for g in grid],
        mean=mean,
        var=var,
        log_evidence=mp.log(z),
    )


def posterior(nodes, query, evidence=None, grid=None, n=12, backend="gl", check=True):
    net = {x.name: x for x in nodes} if not isinstance(nodes, dict) else nodes
    evidence = dict(evidence or {})
    for k in [query, *evidence]:
        if k not in net:
            raise KeyError(k)
    if backend == "mp":
        return _run_mp(net, query, evidence, grid)
    r = _run(net, query, evidence, grid, n)
    if check:
        r2 = _run(net, query, evidence, grid, 2 * n)
        e = [abs(r.log_evidence - r2.log_evidence)]
        if r.p is not None:
            e += [abs(r.p[s] - r2.p[s]) for s in r.p]
        if r.mean is not None:
            e += [abs(r.mean - r2.mean), abs(r.var - r2.var)]
        if r.pdf is not None:
            e.append(float(np.abs(r.pdf - r2.pdf).max()))
        r2.err = float(max(e))
        return r2
    return r


# ------------------------------------------------------------------ helpers to write the usual potentials as callables
def table(states, rows):
    """rows: {tuple of parent states in order: [p...]} or a flat list for a root"""

    def f(v, **pa):
        row = rows if not pa else rows[tuple(pa.values())]
        return row[list(states).index(v)]

    return f


def mte(leaves, own):
    """leaves: list of dict(given={parent: state | (lo,hi)}, piece=(lo,hi), const=a0, terms=[(coef, {var: b})]).
    Intervals are half open [lo,hi), the last one closed. Works with float or mpf; scalar."""
    his = max(leaf["piece"][1] for leaf in leaves)
    phi = {}
    for leaf in leaves:
        for k, g in leaf.get("given", {}).items():
            if isinstance(g, (tuple, list)):
                phi[k] = max(phi.get(k, g[1]), g[1])

    def inside(x, iv, top):
        return iv[0] <= x < iv[1] or (x == iv[1] == top)

    def f(v, **pa):
        vals = {**pa, own: v}
        for leaf in leaves:
            if not inside(v, leaf["piece"], his):
                continue
            if all(
                inside(pa[k], g, phi[k]) if isinstance(g, (tuple, list)) else pa[k] == g
                for k, g in leaf.get("given", {}).items()
            ):
                r = leaf["const"] + 0 * v
                for c, b in leaf["terms"]:
                    e = sum(bb * vals[k] for k, bb in b.items())
                    r = r + c * _exp(e)
                return r
        return 0.0

    return f


def _exp(e):
    try:
        return math.exp(e) if isinstance(e, (float, int, np.floating)) else __import__("mpmath").exp(e)
    except OverflowError:
        return math.inf


def gauss(mu, sd):
    def f(v, **pa):
        m = mu(**pa) if callable(mu) else mu
        s = sd(**pa) if callable(sd) else sd
        return np.exp(-0.5 * ((v - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))

    return f


def kde(points, h, weights=None):
    p = np.asarray(points, float)
    w = np.full(len(p), 1 / len(p)) if weights is None else np.asarray(weights, float) / np.sum(weights)

    def f(v, **pa):
        v = np.asarray(v, float)
        return (w * np.exp(-0.5 * ((v[..., None] - p) / h) ** 2)).sum(-1) / (h * math.sqrt(2 * math.pi))

    return f
