"""A stand-in for systemd on a machine without it, for the kubelet's unit in Kubernetes' tests of a node.

`install` writes `systemd-run`, `systemctl` and `sudo` into a directory that comes first in PATH. They implement the
commands that the tests use: to start, stop, restart, kill and list units. SIGTERM is sent to the unit's main process
only, as with `KillMode=process`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_VERSION: Final = "systemd 252 (a stand-in of qa.conformance)"
_PATIENCE: Final = 90.0
"""Seconds from SIGTERM to SIGKILL: TimeoutStopSec's default."""
_LOG: Final = "StandardError=append:"


def install(directory: Path) -> Path:
    """Write the programs into `directory/bin`, and return it. The units are kept in `directory/units`."""
    programs, units = directory / "bin", directory / "units"
    for each in (programs, units):
        each.mkdir(parents=True)
    for name in ("systemd-run", "systemctl"):
        command = shlex.join([sys.executable, str(Path(__file__).resolve()), str(units), name])
        _write(programs / name, f'exec {command} "$@"')
    _write(programs / "sudo", 'exec "$@"')
    return programs


def end(directory: Path) -> None:
    """SIGKILL the programs of all units below `directory`."""
    for path in (directory / "units").glob("*.json"):
        unit = _read(path)
        if _is_running(unit):
            os.kill(unit["pid"], signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """Act as `systemd-run` or `systemctl`; return the exit code."""
    units, program, *rest = arguments
    return _run(Path(units), rest) if program == "systemd-run" else _control(Path(units), rest)


def _run(units: Path, arguments: Sequence[str]) -> int:
    """Start a unit. The arguments are options, and then the unit's command."""
    if "--version" in arguments:
        sys.stdout.write(f"{_VERSION}\n")
        return 0
    name, log, at = "", os.devnull, 0
    while arguments[at].startswith("-"):
        option = arguments[at]
        if option == "-p":
            at += 1
            if arguments[at].startswith(_LOG):
                log = arguments[at].removeprefix(_LOG)
        elif option.startswith("--unit="):
            name = option.removeprefix("--unit=")
        at += 1
    # The tests escape `%` and `$` for systemd by doubling them.
    command = [each.replace("%%", "%").replace("$$", "$") for each in arguments[at:]]
    unit = {"name": name, "command": command, "log": log, "directory": str(Path.cwd())}
    _start(units / f"{name}.json", unit)
    return 0


def _control(units: Path, arguments: Sequence[str]) -> int:
    """Execute one command of systemctl. Unknown commands fail, so that no test passes although nothing was done."""
    verb, *rest = arguments
    if verb == "list-units":
        return _list(units, rest)
    if verb == "reset-failed":
        return 0
    chosen = [units / f"{each}.json" for each in rest if not each.startswith("-")]
    # Tests may leave out the suffix `.service`.
    chosen = [each if each.exists() else each.with_name(f"{each.stem}.service.json") for each in chosen]
    if verb not in ("restart", "start", "stop", "kill") or not all(each.exists() for each in chosen):
        sys.stderr.write(f"systemctl {shlex.join(arguments)}: not known to this stand-in\n")
        return 1
    for path in chosen:
        unit = _read(path)
        if verb == "kill" and _is_running(unit):
            os.kill(unit["pid"], signal.SIGTERM)
        if verb in ("restart", "stop"):
            _stop(unit)
        if verb in ("restart", "start") and not _is_running(unit):
            _start(path, unit)
    return 0


def _list(units: Path, arguments: Sequence[str]) -> int:
    patterns = [each for each in arguments if not each.startswith("-")] or ["*"]
    for path in sorted(units.glob("*.json")):
        unit = _read(path)
        running = _is_running(unit)
        wanted = any(fnmatch.fnmatch(unit["name"], each) for each in patterns)
        if wanted and (running or "--state=running" not in arguments):
            sys.stdout.write(f"{unit['name']} loaded active {'running' if running else 'exited'}\n")
    return 0


def _start(path: Path, unit: dict[str, Any]) -> None:
    with Path(unit["log"]).open("ab") as log:
        process = subprocess.Popen(
            unit["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=unit["directory"],
            start_new_session=True,
        )
    path.write_text(json.dumps({**unit, "pid": process.pid, "started": _began(process.pid)}))


def _stop(unit: dict[str, Any]) -> None:
    deadline = time.monotonic() + _PATIENCE
    if _is_running(unit):
        os.kill(unit["pid"], signal.SIGTERM)
    while _is_running(unit):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(unit["pid"], signal.SIGKILL)
        time.sleep(0.1)


def _is_running(unit: dict[str, Any]) -> bool:
    return bool(_began(unit["pid"]) == unit["started"] != "")


def _began(pid: int) -> str:
    """When a process began, in the kernel's ticks, which detects that a pid was reused; "" = the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _read(path: Path) -> dict[str, Any]:
    unit: dict[str, Any] = json.loads(path.read_text())
    return unit


def _write(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
