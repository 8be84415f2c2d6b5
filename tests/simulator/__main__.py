"""The simulator on the command line.

``python -m tests.simulator 17 42`` explains seeds; ``python -m tests.simulator --seeds 10000`` runs as many and prints
how often each fault was injected; ``python -m tests.simulator --month`` has a pod crash-loop for a month.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulator import month
from tests.simulator.campaign import explained, run_seeds
from tests.simulator.report import table


def main() -> int:
    """Run what the arguments say; return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to run and explain")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--month", action="store_true", help="have a pod crash-loop for a simulated month")
    arguments = parser.parse_args()
    if arguments.month:
        sys.stdout.write(f"{month.table(month.crash_loop())}\n")
        return 0
    seeds = arguments.seed or range(arguments.first, arguments.first + (arguments.seeds or 1_000))
    began = time.perf_counter()
    campaign = run_seeds(seeds)
    took = time.perf_counter() - began
    lines = [] if arguments.seed else [table(campaign.injected), ""]
    lines.append(
        f"{campaign.seeds:,} seeds in {took:.1f} s: {campaign.tasks:,} workflow tasks, {campaign.runs:,} runs, "
        f"{campaign.replays:,} replays, {campaign.simulated_seconds / 86_400:,.1f} simulated days, "
        f"{len(campaign.failed)} failed"
    )
    lines += [explained(campaign)] if campaign.failed else []
    sys.stdout.write("\n".join((*lines, "")))
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
