"""A standard stream that is closed, or that takes nothing more, leaves no change half made and prints no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LOST = "syncpod: standard output: No space left on device: make room on its disk\n"
OBJECTS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}} for name in ("a", "b")
    ],
}


def in_shell(command: str, state: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell's command line in which `syncpod` is the program."""
    environ = {"SYNCPOD_STATE_DIR": str(state / "s"), "SYNCPOD_MEMORY_DIR": str(state / "m"), "PATH": "/usr/bin:/bin"}
    line = command.replace("syncpod", f"{sys.executable} -m syncpod.cli.main", 1)
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False, env=environ, timeout=60)


def names(state: Path) -> list[str]:
    """The names of the ConfigMaps."""
    found: dict[str, Any] = json.loads(in_shell("syncpod get cm -o json", state).stdout)
    return [each["metadata"]["name"] for each in found["items"]]


@pytest.mark.parametrize(
    ("stream", "code", "told"), [(">&-", 0, ""), (">/dev/full", 1, LOST), ("2>&-", 0, ""), ("2>/dev/full", 0, "")]
)
def test_a_change_is_completed_whatever_becomes_of_its_output(
    tmp_path: Path, stream: str, code: int, told: str
) -> None:
    (file := tmp_path / "objects.json").write_text(json.dumps(OBJECTS))
    made = in_shell(f"syncpod apply -f {file} {stream}", tmp_path)
    assert (made.returncode, made.stderr, names(tmp_path)) == (code, told, ["a", "b"])
    ended = in_shell(f"syncpod delete -f {file} {stream}", tmp_path)
    assert (ended.returncode, ended.stderr, names(tmp_path)) == (code, told, [])


@pytest.mark.parametrize("words", ["--help", "version", "get cm", "no-such-command", "completion bash"])
@pytest.mark.parametrize("stream", [">&-", ">/dev/full", "2>&-", "2>/dev/full", "<&-", "<&- >&- 2>&-"])
def test_no_command_prints_a_traceback(tmp_path: Path, words: str, stream: str) -> None:
    done = in_shell(f"syncpod {words} {stream}", tmp_path)
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(("words", "code"), [("no-such-command", 2), ("delete cm none", 1), ("get cm", 0)])
def test_a_command_whose_outputs_nobody_reads_has_its_own_exit_code(tmp_path: Path, words: str, code: int) -> None:
    (state := tmp_path / "s").mkdir(mode=0o700)
    reads, writes = os.pipe()
    os.close(reads)
    line = [sys.executable, "-m", "syncpod.cli.main", *words.split()]
    environ = {**os.environ, "SYNCPOD_STATE_DIR": str(state), "SYNCPOD_MEMORY_DIR": str(tmp_path / "m")}
    try:
        done = subprocess.run(line, stdout=writes, stderr=writes, check=False, env=environ, timeout=60)
    finally:
        os.close(writes)
    assert done.returncode == code


def test_the_plugin_of_kubectl_names_output_that_is_lost_too() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "syncpod.cli.kubectl_plugin", "--help"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"kubectl-{LOST}")


def test_a_command_that_goes_on_for_ever_ends_when_its_output_is_lost(tmp_path: Path) -> None:
    in_shell("syncpod create cm a", tmp_path)
    watched = in_shell("syncpod get cm -w >/dev/full", tmp_path)
    assert (watched.returncode, watched.stderr) == (1, LOST)


@pytest.mark.parametrize("words", ["apply -f -", "create -f -", "replay -f -"])
def test_a_closed_standard_input_is_no_manifest(tmp_path: Path, words: str) -> None:
    read = in_shell(f"syncpod {words} <&-", tmp_path)
    assert (read.returncode, read.stderr) == (2, "syncpod: standard input is closed\n")


def test_no_file_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    script = (
        "import os, sys; from syncpod.cli.standard_streams import open_standard_streams; open_standard_streams();"
        "print('lost', flush=True); found = [os.readlink(f'/proc/self/fd/{n}') for n in range(3)];"
        f"open({str(tmp_path / 'found')!r}, 'w').write(repr(found))"
    )
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, script]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0
    assert (tmp_path / "found").read_text() == repr(["/dev/null"] * 3)
