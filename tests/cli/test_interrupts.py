"""Long-running commands end at a signal, even if a shell started them in the background."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

PATIENCE_SECONDS = 60
SHELL = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""A shell that ignores SIGINT and executes a program, which inherits that."""


def interrupted(words: Sequence[str], environ: dict[str, str]) -> int:
    """Start a command with SIGINT ignored, send SIGINT until it ends, and return its exit code."""
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


@pytest.mark.parametrize("module", ["shutil", "typer"])
def test_ctrl_c_before_a_command_begins_prints_no_traceback(tmp_path: Path, module: str) -> None:
    """That time goes to importing the program itself, and then the parser, which here never ends."""
    begun = tmp_path / "begun"
    (tmp_path / f"{module}.py").write_text(f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(600)\n")
    started = subprocess.Popen(
        [sys.executable, "-m", "syncpod.cli.main", "up"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not begun.exists():
            assert started.poll() is None, started.communicate()
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=PATIENCE_SECONDS)
    finally:
        started.kill()
        started.wait()
    assert (started.returncode, said) == (-signal.SIGINT, "")


def test_ctrl_c_ends_a_command_of_a_group_as_any_other() -> None:
    """It was ended by the signal itself, so that nothing that it had begun was ended or named."""
    script = (
        "import os, signal, sys, time\n"
        "from syncpod.cli.main import main\n"
        "from syncpod.cli.temporal import fleet\n"
        "fleet.run = lambda *_, **__: (os.kill(os.getpid(), signal.SIGINT), time.sleep(600))\n"
        "sys.argv = ['syncpod', 'fleet', 'get', 'nodes']\n"
        "main()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=PATIENCE_SECONDS).returncode == 130
