"""Runs the same measurement on each runtime. Each runtime gets a server, a node and a directory of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from bench import machine
from tests.e2e.faults_support import FaultyNode, faulty_node
from tests.runtimes.containerd import VERSIONS, Containerd
from tests.runtimes.embedded import Embedded
from tests.runtimes.require import Missing
from tests.runtimes.runtime import Runtime
from tests.runtimes.temporal import DevServer

EMBEDDED = "embedded"
RUNTIMES = (EMBEDDED, VERSIONS[0], VERSIONS[-1])

Found = TypeVar("Found")
Measure = Callable[[FaultyNode, Path], Awaitable[Found]]
"""Measures on one runtime, given a node that serves it and a directory that does not exist yet."""
Report = Callable[[str, dict[str, Found], bool], int]
"""Called with the description of the machine, the results by runtime, and whether these are all runtimes; returns the
exit code."""


def title(runtime: Runtime) -> str:
    """Return the name of a runtime for a table."""
    return runtime.kind if runtime.name == EMBEDDED else f"{runtime.kind} {runtime.series}"


def main(
    module: str,
    purpose: str,
    measure: Measure[Found],
    report: Report[Found],
    arguments: Sequence[str] | None = None,
) -> int:
    """Measure on the runtimes that the command line names, or on all; return the report's exit code.

    If the machine lacks a part, print a message to standard error and return 2.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=purpose)
    parser.add_argument("--runtime", nargs="+", choices=RUNTIMES, default=RUNTIMES, help="on which (default: all)")
    options, load = parser.parse_args(arguments), machine.load()
    try:
        found = asyncio.run(_measured(options.runtime, measure))
    except Missing as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    return report(machine.environment(", ".join(found), load), found, tuple(options.runtime) == RUNTIMES)


def document(path: Path, written: Callable[[str, dict[str, Found]], str]) -> Report[Found]:
    """Return a report function that prints a text, and writes it to `path` if it covers all runtimes."""

    def report(environment: str, found: dict[str, Found], whole: bool) -> int:
        text = written(environment, found)
        print(text)
        if whole:
            path.write_text(text)
        return 0

    return report


async def _measured(names: Sequence[str], measure: Measure[Found]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    server = await asyncio.to_thread(DevServer.launch)
    try:
        for name in names:
            with tempfile.TemporaryDirectory(prefix="syncpod-bench-") as directory:
                home = Path(directory)
                await asyncio.to_thread(home.chmod, 0o755)  # containers of any user write below it
                runtime = await asyncio.to_thread(_launched, name)
                try:
                    async with faulty_node(runtime, server, home) as node:
                        found[title(runtime)] = await measure(node, home / "out")
                finally:
                    await asyncio.to_thread(runtime.close)
    finally:
        await asyncio.to_thread(server.close)
    return found


def _launched(name: str) -> Runtime:
    return Embedded.launch() if name == EMBEDDED else Containerd.launch(name)
