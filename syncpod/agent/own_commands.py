"""Runs ``syncpod`` commands on the node for remote callers: for the node's fleet, or at the kubelet's port.

Each command is a process of its own: it uses none of the worker's memory or event loop, and can be killed as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import syncpod


async def start_command(
    words: Sequence[str], environment: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> asyncio.subprocess.Process:
    """Start ``syncpod`` with the arguments `words`, as the leader of a session. Raises OSError."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *_program(),
            *words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd="/",
            env=dict(environment),
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # asyncio (3.11) does not survive a cancellation of this call: it hangs
        with contextlib.suppress(OSError):
            process = await starting
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        raise


def command_environment(
    environ: Mapping[str, str], *, address: str, namespace: str, state_dir: Path, log_dir: Path
) -> dict[str, str]:
    """Return the environment for a node's commands: it names the node's own server, state and logs."""
    root = str(Path(syncpod.__file__).resolve().parent.parent)
    return {
        **environ,
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": namespace,
        "SYNCPOD_STATE_DIR": str(state_dir),
        "SYNCPOD_LOG_DIR": str(log_dir),
        "PYTHONPATH": root,
        "COLUMNS": "120",
    }


def _program() -> Sequence[str]:
    return (sys.executable, "-P", "-m", "syncpod.cli.remote_command", str(os.getpid()))
