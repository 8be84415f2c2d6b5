"""``python -m bench``: measure, and print one table."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bench import machine
from bench.commands import command_line
from bench.figures import Row, render
from bench.growth import growth
from bench.idle import idle
from bench.lives import histories
from bench.local import decisions
from bench.performance import against_kubelet
from bench.probes import probes
from bench.races import RACES, run
from bench.signatures import signatures
from bench.simulated import simulated
from bench.stage import Stage, stage
from tests.runtimes.containerd import VERSIONS
from tests.runtimes.require import Missing

STAGED: Mapping[str, Callable[[Stage], Awaitable[tuple[Row, ...]]]] = {"history": histories, "idle": idle}
LOCAL: Mapping[str, Callable[[int], tuple[Row, ...]]] = {"decisions": decisions}
SIMULATED: Mapping[str, Callable[[int], Awaitable[tuple[Row, ...]]]] = {"cli": command_line}
"""Measurements on a node of their own, with simulated pods."""
NAMES = (*RACES, *STAGED, *LOCAL, *SIMULATED)
ALONE: Mapping[str, Callable[[int], Awaitable[object]]] = {
    "simulated": simulated,
    "growth": growth,
    "probes": probes,
    "signatures": signatures,
}
"""Measurements only on request: each uses the whole machine for minutes, and prints tables of its own."""
_PODS = {"simulated": 2000, "growth": 2000, "probes": 500, "signatures": 100}
_DEFAULTS = ", ".join(f"{name} {pods}" for name, pods in _PODS.items())


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options: `runtime`, `only` (names in the table's order), `runs`, `pods`."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure the engine against the same bare CRI calls, in turn."
    )
    parser.add_argument("--runtime", choices=VERSIONS, default=VERSIONS[0], help="which containerd (default: 1.6)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=(*NAMES, *ALONE),
        metavar="NAME",
        help=f"any of: {', '.join(NAMES)}; or, with many simulated pods, only {' or '.join(ALONE)}",
    )
    parser.add_argument(
        "--runs", type=_positive, default=9, help="pairs of alternating runs; fewer for slow ones (default: 9)"
    )
    parser.add_argument(
        "--against",
        choices=("kubelet",),
        help="measure a live kubelet, a node, the bare calls and a prototype in turn, and write docs/performance.md "
        "(18 minutes)",
    )
    parser.add_argument("--pods", type=_positive, help=f"how many simulated pods (default: {_DEFAULTS})")
    options = parser.parse_args(arguments)
    if options.against and options.only:
        parser.error("--against: cannot be combined with --only")
    for name in (name for name in options.only or () if name in ALONE):
        if options.only != [name]:
            parser.error(f"--only: {name} cannot be combined with others")
        options.only = (name,)
        options.pods = options.pods or _PODS[name]
        return options
    options.only = tuple(name for name in NAMES if name in (options.only or NAMES))
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested measurements; return the exit code: 1 if they are void, 2 if the machine lacks a part."""
    options, load_before = parse(arguments), machine.load()
    try:
        if options.against:
            tables, why_void = asyncio.run(against_kubelet(options.runtime, _say))
            print(f"Void: {why_void}\n{tables}" if why_void else tables)
            if why_void:
                _say(f"{why_void}: docs/performance.md stays as it is")
            return 1 if why_void else 0
        if options.only[0] in ALONE:
            print(_alone(ALONE[options.only[0]](options.pods), load_before))
            return 0
        rows, runtime = asyncio.run(_measure(options))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    print(machine.environment(runtime, load_before), render(rows), sep="\n\n")
    return 0


def _alone(measuring: Awaitable[object], load_before: float) -> str:
    async def measured() -> object:
        return await measuring

    tables = asyncio.run(measured())
    return f"{machine.environment('simulated pods', load_before)}\n\n{tables}"


async def _measure(options: argparse.Namespace) -> tuple[list[Row], str]:
    """Return the rows in the table's order, and the runtime that was used."""
    rows: list[Row] = []
    runtime = "no runtime"
    on_stage = [name for name in options.only if name in RACES or name in STAGED]
    if on_stage:
        _say(f"starting containerd {options.runtime}, a Temporal server and a worker")
        async with stage(options.runtime) as at:
            runtime = f"containerd {at.runtime.version}"
            for name in on_stage:
                _say(name)
                rows += await (run(RACES[name], at, options.runs) if name in RACES else STAGED[name](at))
    for name in options.only:
        if name in LOCAL:
            _say(name)
            rows += LOCAL[name](options.runs)
        if name in SIMULATED:
            _say(name)
            rows += await SIMULATED[name](options.runs)
    return rows, runtime


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _say(what: str) -> None:
    sys.stderr.write(f"bench: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
