"""`python -m qa.chaos`: break a node for a while; `double-start`: kill the worker at moments of a slow start."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from qa.chaos.double_start import MOMENTS, double_start
from qa.chaos.run import Chaos, say
from qa.chaos.stack import VERSIONS, stack
from tests.runtimes.require import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if nothing was found, 1 if something was, 2 if the machine lacks a part."""
    parser = argparse.ArgumentParser(prog="python -m qa.chaos", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("chaos", "double-start"), default="chaos")
    parser.add_argument("--runtime", choices=VERSIONS, default="containerd24", help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=5.0, help="of chaos (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is done to whom (default: %(default)s)")
    parser.add_argument("--times", type=int, default=MOMENTS, help="double starts to provoke (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them, to go on in pieces (default: 0)")
    parser.add_argument("--evidence", type=Path, help="where notes and logs are kept if something was found")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.what == "double-start":
            return asyncio.run(double_start(chosen.runtime, range(chosen.first, chosen.first + chosen.times)))
        return asyncio.run(_chaos(chosen.runtime, chosen.minutes * 60, chosen.seed, chosen.evidence))
    except Missing as missing:
        sys.stderr.write(f"chaos: {missing}\n")
        return 2


async def _chaos(runtime: str, seconds: float, seed: int, evidence: Path | None) -> int:
    say(f"chaos on {runtime} for {seconds:.0f} s, seed {seed}")
    async with stack(runtime) as node:
        chaos = Chaos(node, seed, seconds)
        verdict = await chaos.run()
        if verdict.violations and evidence is not None:
            node.keep_evidence(evidence, chaos.records)
    say("\n".join(f"{count:6}  {fault}" for fault, count in sorted(chaos.faults.items())))
    say("\n".join(f"{count:6}  {what}" for what, count in verdict.figures.items()))
    for violation in verdict.violations:
        say(f"VIOLATION  {violation}")
    say(f"{len(verdict.violations)} violations: {runtime}, seed {seed}, {seconds:.0f} s")
    return int(bool(verdict.violations))


if __name__ == "__main__":
    sys.exit(main())
