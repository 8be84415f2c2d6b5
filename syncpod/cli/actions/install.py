"""Writes, starts and removes the systemd units of this machine's node; `syncpod fleet install` uses its parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine import systemd
from syncpod.cli.machine.ending import end_all
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import recorded_server, recorded_worker, write_server
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_WORKER,
    NODE_UNITS,
    RUNTIME,
    SERVER,
    WORKER,
    environment_file,
)
from syncpod.cli.machine.units_of_node import ENVIRONMENT_FILE, given_to_units, units_for
from syncpod.kernel.atomic_file import replace_file
from syncpod.settings.table import first_difference


def install_node(state_dir: str, *, only_print: bool) -> None:
    """Have systemd serve the node that `up` has started, or only print the units. Raises BadInput, Failure."""
    here = settings(state_dir=state_dir)
    directory = here.state_dir
    worker = recorded_worker(directory)
    if worker is None:
        raise BadInput(
            f"no node of {directory} was started with `{program()} up`, whose settings the units would have: "
            "start it so first"
        )
    # The units have the recorded socket; a link to it is the same runtime.
    kept = kept_settings(directory).variables
    if differs := first_difference(kept, here.given, apart_from=("runtime_endpoint",)):
        raise BadInput(f"the node of {directory} was started {differs}: start it so first with `{program()} up`")
    units = units_for(directory, worker)
    if only_print:
        show(directory, units)
        return
    systemd.require_booted()
    systemd.require_ours(directory, units)
    systemd.remove(name for name in systemd.installed(directory, NODE_UNITS) if name not in units)
    changed = write(directory, units)
    end_all(directory)
    systemd.start([name for name in (SERVER, RUNTIME, WORKER) if name in units], changed)
    say(f"node/{worker.node} is served by {', '.join(sorted(units))}")
    enable_linger()


def uninstall_node(state_dir: str) -> None:
    """Stop and remove the node's units; the server's stays if a fleet's units need it. Raises BadInput, Failure."""
    directory = settings(state_dir=state_dir).state_dir
    there = systemd.installed(directory, NODE_UNITS)
    if shared := systemd.installed(directory, (FLEET_WORKER, FLEET_GATE)):
        there.pop(SERVER, None)
    removed = remove(directory, there)
    if not removed:
        remark(f"No units of the node of {directory} are installed")
        return
    say(f"{', '.join(removed)} removed; the pods keep running, and `{program()} up` serves them again")
    if shared and SERVER in systemd.installed(directory, (SERVER,)):
        remark(f"Note: {SERVER} stays, for {', '.join(sorted(shared))}")


def show(directory: Path, units: Mapping[str, str]) -> None:
    """Print units with their paths, and the names of the variables that they get; the values may be secret."""
    for name, text in sorted(units.items()):
        say(f"# {systemd.unit_directory(os.environ) / name}")
        say(text)
    say(f"# {directory / ENVIRONMENT_FILE}, which only you can read, with the values of")
    say(f"#   {', '.join(sorted(given_to_units(os.environ)))}")


def write(directory: Path, units: Mapping[str, str]) -> list[str]:
    """Write units and their environment; return the names of the units that changed. Raises Failure.

    If the environment has changed, all units count as changed.
    """
    before, file = systemd.installed(directory), directory / ENVIRONMENT_FILE
    given = environment_file(given_to_units(os.environ))
    try:
        is_as_before = file.is_file() and file.read_text() == given
        replace_file(file, given, durable=True)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}") from None
    systemd.write(units)
    return [name for name, text in units.items() if not is_as_before or before.get(name) != text]


def remove(directory: Path, names: Iterable[str]) -> list[str]:
    """Stop and remove units of a state directory; return their names. Raises Failure.

    The Temporal server's record stays: from it, the next `up` takes the server's ports.
    """
    server, removed = recorded_server(directory), list(names)
    systemd.remove(removed)
    if server is not None and recorded_server(directory) is None:
        write_server(directory, server)
    if not systemd.installed(directory):
        (directory / ENVIRONMENT_FILE).unlink(missing_ok=True)
    return removed


def enable_linger() -> None:
    """Let a user's units start at boot, and print a note if that is not possible."""
    if not systemd.is_system() and (why := systemd.linger()):
        remark(
            "Note: your units begin when you log in, and end with your last session: "
            f"`sudo loginctl enable-linger $USER` has them begin at boot ({why})"
        )
