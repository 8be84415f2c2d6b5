"""Others' command lines, which drive pods as well as ours."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.e2e.engine import EngineNode
from tests.runtimes.temporal import temporal_program


async def temporal(node: EngineNode, *arguments: str | Path) -> str:
    """Run the `temporal` CLI against the node's server and return what it prints; raises AssertionError if it fails."""
    return await _run(temporal_program(), *arguments, "--address", node.server.address)


async def run_tctl(program: Path, node: EngineNode, *arguments: str | Path) -> str:
    """Run `tctl` in the same way."""
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
