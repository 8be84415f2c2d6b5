"""`python -m qa.differential [PATTERN...]`: compare a kubelet with a node of ours."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from qa.differential.compare import Verdict, keep, kept
from qa.differential.families import SCENARIOS
from qa.differential.kubelet import build
from qa.differential.run import run, tell
from qa.differential.scenario import Scenario
from qa.differential.sides import stage
from qa.differential.table import write_table
from tests.runtimes.require import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if each difference has its sentence, 1 if one has none, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.differential", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="which scenarios, as family/name with * (default: all)")
    parser.add_argument("--runtime", choices=("1.6", "2.4"), default="2.4", help="containerd (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="only list the scenarios")
    parser.add_argument("--build", action="store_true", help="only build the kubelet, if it is missing")
    parser.add_argument("--results", type=Path, help="keep in this file what scenarios come to, beside earlier runs'")
    parser.add_argument("--table", type=Path, help="only write the table of --results between its marks in this page")
    chosen = parser.parse_args(arguments)
    if chosen.build:
        return _build()
    scenarios = [each for each in SCENARIOS if not chosen.patterns or _fits(each, chosen.patterns)]
    if chosen.list:
        sys.stdout.writelines(f"{each.title}\n" for each in scenarios)
        return 0
    if chosen.table:
        write_table(chosen.table, kept(chosen.results, [each.title for each in SCENARIOS]))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # all started processes are then ended too
    try:
        verdicts = asyncio.run(_run(chosen.runtime, scenarios, chosen.results))
    except Missing as missing:
        sys.stderr.write(f"differential: {missing}\n")
        return 2
    counts = Counter(each.kind for each in verdicts)
    sys.stdout.write(f"{len(verdicts)} scenarios: {', '.join(f'{n} {kind}' for kind, n in counts.most_common())}\n")
    return int(any(each.kind in ("unexplained", "undecided") for each in verdicts))


def _build() -> int:
    try:
        sys.stdout.write(f"{build()}\n")
    except (Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"differential: {error}\n")
        return 2
    return 0


def _fits(scenario: Scenario, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(scenario.title, pattern) for pattern in patterns)


async def _run(runtime: str, scenarios: Sequence[Scenario], results: Path | None) -> list[Verdict]:
    def told(verdict: Verdict) -> None:
        tell(verdict)
        if results is not None:
            keep(results, [verdict])

    async with stage(runtime) as both:
        return await run(both, scenarios, told)


if __name__ == "__main__":
    sys.exit(main())
