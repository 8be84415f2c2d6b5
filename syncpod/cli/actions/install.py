"""The work of ``syncpod install`` and ``syncpod uninstall``: the node of this machine as systemd units."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from syncpod.cli.console import say
from syncpod.cli.failure import Failure
from syncpod.cli.machine import systemd
from syncpod.cli.machine.state_directory import recorded_server, write_server
from syncpod.cli.machine.systemd_units import (
    environment_file,
)
from syncpod.cli.machine.units_of_node import ENVIRONMENT_FILE, given_to_units
from syncpod.kernel.atomic_file import replace_file


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
