"""Commands that go on until they are told to end, started as a shell starts what a script runs in its background."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

PATIENCE_SECONDS = 60
SHELL = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Ignores SIGINT, and leaves that to the program that it becomes."""


def interrupted(words: Sequence[str], environ: dict[str, str]) -> int:
    """Start a command with SIGINT ignored, send it until it ends, and return the exit code."""
    started = subprocess.Popen(
        [*SHELL, sys.executable, "-m", "syncpod.cli.main", *words],
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(PATIENCE_SECONDS * 2):
            try:
                return started.wait(0.5)
            except subprocess.TimeoutExpired:
                started.send_signal(signal.SIGINT)  # until it has got so far as to heed it
        return started.wait(0)
    finally:
        started.kill()
        started.wait()


@pytest.mark.parametrize(
    "words",
    [
        ("get", "pod", "NAME", "-w"),
        ("get", "cm", "-w"),
        ("get", "nodes", "-w"),
        ("events", "NAME", "-w"),
        ("wait", "NAME", "--for=delete", "--timeout=-1s"),
    ],
    ids=" ".join,
)
async def test_long_running_commands_end_on_sigint_in_a_scripts_background(
    syncpod: Command, node: ScriptedNode, words: tuple[str, ...]
) -> None:
    name = fresh_name()
    on = ("--node", node.queue.removeprefix("node/"))
    await syncpod("apply", "-f", "-", "--wait", *on, stdin=as_json(manifest(name)))
    code = await asyncio.to_thread(interrupted, [name if word == "NAME" else word for word in words], {})
    assert code == 130
