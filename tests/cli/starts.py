"""Measures the imports at the start of a command, which take most of the time of a short command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

HEAVY = frozenset(
    {
        "asyncio",
        "temporalio",
        "google",
        "grpc",
        "pydantic",
        "rich",
        "yaml",
        "websockets",
        "opentelemetry",
        "cryptography",
    }
)
"""Packages that take 20 to 400 ms to import."""
_COMMANDS = "syncpod.cli.commands."
_SCRIPT = (
    "import os, sys; from syncpod.cli.main import run; code = run(sys.argv[1:]);"
    "sys.stdout.write('\\0' + '\\n'.join(sys.modules)); sys.stdout.flush(); sys.stderr.flush(); os._exit(code)"
)
"""The script ends like the program, since a process with the Temporal SDK sometimes aborts at a normal exit."""


def heavy(modules: Iterable[str]) -> set[str]:
    """The heavy packages to which these modules belong."""
    return {module.partition(".")[0] for module in modules} & HEAVY


@dataclass(frozen=True)
class Start:
    """One run of a command, with the modules that it imported."""

    code: int
    out: str
    err: str
    modules: frozenset[str]

    @property
    def heavy(self) -> set[str]:
        """The heavy packages from which it imported something."""
        return heavy(self.modules)

    @property
    def commands(self) -> set[str]:
        """The modules of commands that it imported."""
        return {module.removeprefix(_COMMANDS) for module in self.modules if module.startswith(_COMMANDS)}


def started(*arguments: str, **environ: str) -> Start:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environ,
        timeout=120,
    )
    out, _, modules = done.stdout.partition("\0")
    return Start(done.returncode, out, done.stderr, frozenset(modules.split("\n")))
