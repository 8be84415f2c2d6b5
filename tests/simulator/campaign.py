"""Runs many seeds, and stops at those that fail."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulator.faults import draw_case
from tests.simulator.report import explain
from tests.simulator.shrink import shrink
from tests.simulator.simulation import Verdict, simulate

_COLLECT_EVERY = 200
"""Seeds between garbage collections. Simulations leave reference cycles; frequent collections cost 20 % of the time."""


@dataclass
class Campaign:
    """The results of many seeds."""

    seeds: int = 0
    failed: dict[int, Verdict] = field(default_factory=dict)
    injected: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    replays: int = 0
    runs: int = 0
    simulated_seconds: float = 0.0


def run_seeds(seeds: Iterable[int], *, stop_after: int = 5) -> Campaign:
    """Run seeds one after another; end after this many failures."""
    campaign = Campaign()
    collected = gc.isenabled()
    logging.disable(logging.WARNING)  # the SDK warns of each failing task, which the verdict tells
    gc.disable()
    try:
        for seed in seeds:
            verdict = simulate(draw_case(seed))
            campaign.seeds += 1
            campaign.injected += verdict.injected
            campaign.tasks += verdict.tasks
            campaign.replays += verdict.replays
            campaign.runs += verdict.runs
            campaign.simulated_seconds += verdict.seconds
            if verdict.violation:
                campaign.failed[seed] = verdict
                if len(campaign.failed) >= stop_after:
                    break
            if campaign.seeds % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        logging.disable(logging.NOTSET)
        if collected:
            gc.enable()
    return campaign


def explained(campaign: Campaign) -> str:
    """Return a text on a campaign's failures, with the first one reduced; "" if there are none."""
    if not campaign.failed:
        return ""
    first, *others = campaign.failed
    short = shrink(draw_case(first))
    text = explain(first, short, simulate(short))
    also = "".join(f"\nseed {seed}: {campaign.failed[seed].violation.splitlines()[0]}" for seed in others)
    return text + (f"\n\nAlso:{also}" if also else "")
