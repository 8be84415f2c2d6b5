"""Command lines that drive pods: `syncpod`, `temporal` and `tctl`."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.engine import PATIENCE, EngineNode
from tests.fork_server import run_syncpod
from tests.runtimes.temporal import temporal_program


@dataclass(frozen=True)
class Result:
    """The result of one of our commands."""

    code: int
    out: str
    err: str


def machine_of(node: EngineNode) -> dict[str, str]:
    """The environment of a user of `syncpod` on a node's machine."""
    home = node.worker.state_dir.parent
    return {
        **os.environ,
        "TEMPORAL_ADDRESS": node.server.address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "SYNCPOD_NODE": node.name,
        "SYNCPOD_STATE_DIR": str(node.worker.state_dir),
        "SYNCPOD_MEMORY_DIR": str(home / "memory"),
        "SYNCPOD_LOG_DIR": str(home / "logs"),
        "CONTAINER_RUNTIME_ENDPOINT": node.runtime.endpoint,
    }


async def syncpod(node: EngineNode, *arguments: str, stdin: str = "") -> Result:
    """Run our own program on the node's machine, as a process of its own."""
    done = await asyncio.to_thread(run_syncpod, arguments, stdin=stdin, env=machine_of(node), seconds=PATIENCE)
    return Result(done.returncode, done.stdout, done.stderr)


async def temporal(node: EngineNode, *arguments: str | Path) -> str:
    """Run the `temporal` CLI against the node's server and return what it prints; raises AssertionError if it fails."""
    return await _run(temporal_program(), *arguments, "--address", node.server.address)


async def run_tctl(program: Path, node: EngineNode, *arguments: str | Path) -> str:
    """Run `tctl` in the same way as `temporal`."""
    return await _run(program, "--ad", node.server.address, "--ns", node.server.namespace, *arguments)


async def _run(*command: Any) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TEMPORAL_CONFIG_FILE": os.devnull},
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, (out + errors).decode()
    return out.decode()
