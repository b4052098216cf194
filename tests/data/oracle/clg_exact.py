"""Exact posteriors in a small conditional linear Gaussian network by enumeration of the discrete configurations
(joint Gaussian of each, conditioned on the continuous evidence), 50-digit mpmath. Independent of oracle.py."""

import itertools

import mpmath as mp

mp.mp.dps = 50


def posterior(case, evidence):
    """case: dict(discrete={n:{states,p|cpt}}, continuous={n:{parents:[cont], dparents:[disc],
    reg:{key:[intercept,[coef],var]}}}, order=[...])
    -> dict(name -> {state:prob} or (mean, sd)), log_evidence"""
    D, C = case["discrete"], case["continuous"]
    dn = list(D)
    cn = case["order"]
    cfgs = []
    for combo in itertools.product(*[D[d]["states"] for d in dn]):
        cfg = dict(zip(dn, combo, strict=False))
        if any(d in evidence and evidence[d] != cfg[d] for d in dn):
            continue
        w = mp.mpf(1)
        for d in dn:
            key = ",".join(cfg[p] for p in D[d].get("parents", []))
            row = D[d]["cpt"][key]
            w *= (
                mp.mpf(row[D[d]["states"].index(cfg[d])])
                if not isinstance(row[0], str)
                else mp.mpf(mp.mpmathify(eval_frac(row[D[d]["states"].index(cfg[d])])))
            )
        n = len(cn)
        mu = mp.matrix(n, 1)
        S = mp.matrix(n, n)
        for i, c in enumerate(cn):
            key = ",".join(cfg[d] for d in C[c]["dparents"])
            b0, b, v = C[c]["reg"][key]
            b0, v = mp.mpf(str(b0)), mp.mpf(str(v))
            b = [mp.mpf(str(t)) for t in b]
            ps = [cn.index(p) for p in C[c]["parents"]]
            mu[i] = b0 + sum(bb * mu[p] for bb, p in zip(b, ps, strict=False))
            for j in range(i):
                S[i, j] = S[j, i] = sum(bb * S[p, j] for bb, p in zip(b, ps, strict=False))
            S[i, i] = v + sum(bb * S[p, i] for bb, p in zip(b, ps, strict=False))
        ce = [i for i, c in enumerate(cn) if c in evidence]
        r = [i for i in range(n) if i not in ce]
        if ce:
            See = mp.matrix([[S[i, j] for j in ce] for i in ce])
            d = mp.matrix([mp.mpf(str(evidence[cn[i]])) - mu[i] for i in ce])
            inv = See**-1
            q = (d.T * inv * d)[0]
            w *= mp.exp(-q / 2) / mp.sqrt((2 * mp.pi) ** len(ce) * mp.det(See))
            Sre = mp.matrix([[S[i, j] for j in ce] for i in r])
            K = Sre * inv
            m2 = K * d
            mean = {cn[i]: mu[i] + m2[k] for k, i in enumerate(r)}
            V = K * Sre.T
            var = {cn[i]: S[i, i] - V[k, k] for k, i in enumerate(r)}
        else:
            mean = {c: mu[i] for i, c in enumerate(cn)}
            var = {c: S[i, i] for i, c in enumerate(cn)}
        cfgs.append((cfg, w, mean, var))
    Z = sum(w for _, w, _, _ in cfgs)
    out = {}
    for d in dn:
        out[d] = {s: float(sum(w for cfg, w, _, _ in cfgs if cfg[d] == s) / Z) for s in D[d]["states"]}
    for c in cn:
        if c in evidence:
            continue
        m = sum(w * mean[c] for _, w, mean, _ in cfgs) / Z
        v = sum(w * (var[c] + mean[c] ** 2) for _, w, mean, var in cfgs) / Z - m**2
        comps = {}
        for _, w, mean, var in cfgs:
            k = (mp.nstr(mean[c], 20), mp.nstr(var[c], 20))
            comps[k] = comps.get(k, 0) + w / Z
        out[c] = {
            "mean": float(m),
            "var": float(v),
            "sd": float(mp.sqrt(v)),
            "mixture": [[float(w), float(mp.mpf(a)), float(mp.mpf(b))] for (a, b), w in comps.items()],
        }
    return out, float(mp.log(Z))


def eval_frac(s):
    if isinstance(s, str) and "/" in s:
        a, b = s.split("/")
        return mp.mpf(a) / mp.mpf(b)
    return mp.mpf(s)
