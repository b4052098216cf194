"""Solving a question: each distinct row once, by the first engine that can answer it."""

from __future__ import annotations

import warnings

import numpy as np

from hybridbn.inference.answers import Answer, AnyNetwork, Collect, collect_marginals
from hybridbn.inference.engines import Request, choose_plan
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.problem import Question, problem_of
from hybridbn.inference.evidence import repeats
from hybridbn.options import Options

__all__ = ["solve"]


def solve(
    network: AnyNetwork, question: Question, read: Evidence, options: Options, collect: Collect = collect_marginals
) -> Answer:
    """Solve a question; refuse or mark impossible rows and warn of errors.

    `collect` says what is kept of the solutions: by default what the posterior of each target needs.
    """
    problem = problem_of(network, question, read)
    plan = choose_plan(Request(network, problem, question, read, options))
    same = repeats(read, continuous=bool(problem.nodes)) if plan.distinct and not read.single else None
    distinct = read if same is None else read.take(same.first, len(same.first))
    collected = collect(problem, question, distinct.rows)
    log_norms, errors = np.zeros(distinct.rows), np.zeros(distinct.rows)
    for part in plan.solve(distinct):
        log_norms[part.rows], errors[part.rows] = part.log_norm, part.error
        for collector in collected:
            collector.add(part)
    places = None if same is None else same.inverse
    answer = Answer(problem, question, network, options, read, distinct, places, collected, log_norms, errors)
    if not question.all_of:
        impossible = log_norms == -np.inf
        if impossible.any():
            answer.refuse(impossible if places is None else impossible[places], options)
    worst = float(errors.max(initial=0.0))
    if worst > options.tolerance:
        warnings.warn(
            f"the estimated error of the posterior is {worst:.2g}, above the tolerance {options.tolerance:.2g}; more nodes "
            "do not help or would exceed max_bytes. Ask with a larger tolerance= to accept it",
            stacklevel=5,
        )
    return answer
