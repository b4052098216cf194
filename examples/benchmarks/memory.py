"""Measure the memory that queries of large networks take: python examples/benchmarks/memory.py [--limit 6] [--minutes
5].

Each case runs in a process of its own, whose address space is limited (in GiB) and which stops after some CPU-minutes:
all nodes of munin1 and of munin one after the other, munin1 with other findings for each question, and all posteriors
of munin at once. Shown are how many queries were answered, the peak of the resident memory, and the CPU-seconds. With
``--case`` the work is done in this process. Unix only.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from rows import Report, parser, shipped

import hybridbn as hb

FINDINGS = {
    "DIFFN_M_SEV_PROX": "NO",
    "R_APB_SPONT_INS_ACT": "NORMAL",
    "R_APB_SPONT_HF_DISCH": "NO",
    "R_APB_SPONT_DENERV_ACT": "NO",
    "R_APB_SPONT_NEUR_DISCH": "NO",
    "R_APB_SF_DENSITY": "__2SD",
    "R_APB_SF_JITTER": "NORMAL",
    "R_APB_REPSTIM_POST_DECR": "MILD",
    "R_APB_REPSTIM_FACILI": "NO",
    "R_APB_REPSTIM_DECR": "NO",
    "R_APB_REPSTIM_CMAPAMP": "MV8",
    "R_APB_MUPINSTAB": "NO",
    "R_APB_MUPSATEL": "NO",
    "R_APB_QUAL_MUPPOLY": "NORMAL",
    "R_APB_QUAL_MUPDUR": "NORMAL",
    "R_APB_QUAN_MUPDUR": "MS11",
    "R_APB_QUAL_MUPAMP": "NORMAL",
    "R_APB_QUAN_MUPAMP": "UV1150",
    "R_APB_TA_CONCL": "2_5BELOW",
    "R_APB_MVA_AMP": "NORMAL",
    "R_APB_MVA_RECRUIT": "REDUCED",
    "R_APB_MUSCLE_VOL": "NORMAL",
    "R_APB_FORCE": "5",
    "R_MED_LAT_WA": "MS3_5",
    "R_MED_AMP_WA": "MV8",
    "R_MED_CV_EW": "M_S52",
    "R_MED_AMPR_EW": "R0_9",
    "R_MEDD2_CV_WD": "M_S56",
    "R_MEDD2_AMP_WD": "UV28_0",
    "R_MEDD2_CV_EW": "M_S68",
}
"""A patient whose findings keep munin1 wide: 30 nodes."""


def draw_findings(network: hb.Network, count: int) -> dict[str, Any]:
    """Return the values of some nodes in a case that the network produces."""
    case = network.sample(1, random_state=0).to_dict("records")[0]
    return {node: case[node] for node in np.random.default_rng(0).choice(list(network), count, replace=False).tolist()}


def ask_one_by_one(name: str, limit: float) -> tuple[int, int]:
    """Return how many of a network's other nodes got a posterior before the limit, and how many there are."""
    network = hb.read_network(shipped(name))
    findings = FINDINGS if name == "munin1" else draw_findings(network, 10)
    targets = [node for node in network if node not in findings]
    answered = 0
    try:
        for target in targets:
            if time.process_time() > limit:
                break
            network.posterior(target, findings)
            answered += 1
    except (MemoryError, hb.TooWide) as error:
        print(f"stopped: {error!r}"[:200], file=sys.stderr)
    return answered, len(targets)


def ask_in_turn(name: str, limit: float) -> tuple[int, int]:
    """Return how many questions were answered in which both the findings and the targets change, and how many there
    are.
    """
    network = hb.read_network(shipped(name))
    nodes, rng = list(network), np.random.default_rng(0)
    cases = network.sample(100, random_state=0).to_dict("records")
    for number, case in enumerate(cases):
        if time.process_time() > limit:
            return number, len(cases)
        chosen = rng.choice(nodes, 11, replace=False).tolist()
        try:
            network.posterior(chosen[0], {node: case[node] for node in chosen[1:]})
        except (MemoryError, hb.TooWide) as error:
            print(f"stopped: {error!r}"[:200], file=sys.stderr)
            return number, len(cases)
    return len(cases), len(cases)


def ask_at_once(name: str, limit: float) -> tuple[int, int]:
    network = hb.read_network(shipped(name))
    try:
        network.posteriors(draw_findings(network, 10))
    except (MemoryError, hb.TooWide) as error:
        print(f"stopped: {error!r}"[:200], file=sys.stderr)
        return 0, 1
    return 1, 1


CASES = {
    "munin1, 30 findings, each other node": partial(ask_one_by_one, "munin1"),
    "munin1, 10 of many findings": partial(ask_in_turn, "munin1"),
    "munin, 10 findings, each other node": partial(ask_one_by_one, "munin"),
    "munin, 10 findings, all posteriors": partial(ask_at_once, "munin"),
}


def measure(case: str, limit: float, minutes: float) -> None:
    """Do a case here, and print what it took."""
    resource.setrlimit(resource.RLIMIT_AS, (int(limit * 2**30),) * 2)
    answered, asked = CASES[case](60 * minutes)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    print(json.dumps({"answered": answered, "asked": asked, "peak_mib": peak, "seconds": time.process_time()}))


def bench(report: Report, case: str, limit: float, minutes: float) -> None:
    command = [sys.executable, __file__, "--case", case, "--limit", str(limit), "--minutes", str(minutes)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return print(f"{case:<40} ended by {done.returncode}")
    figures = json.loads(done.stdout)
    spent = figures.pop("seconds")
    report.add(case, spent, **figures)
    return print(
        f"{case:<40} {figures['answered']:>4} of {figures['asked']} {figures['peak_mib']:8.0f} MiB {spent:8.1f} s",
        flush=True,
    )


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--limit", type=float, default=6.0, help="GiB of address space")
    options_parser.add_argument("--minutes", type=float, default=5.0, help="CPU-minutes after which no query is begun")
    options_parser.add_argument("--case", choices=CASES)
    options = options_parser.parse_args()
    if options.case:
        return measure(options.case, options.limit, options.minutes)
    with Report(options) as report:
        for case in CASES:
            report.run(bench, case, options.limit, options.minutes)
    return None


if __name__ == "__main__":
    main()
