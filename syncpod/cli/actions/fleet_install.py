"""Installs a fleet's worker and gate on this machine as systemd units, and removes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from syncpod.cli.actions.install import enable_linger, remove, show, write
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.machine import dev_server, fleet_processes, systemd
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import prepare, recorded_server, running_server
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_UNITS,
    FLEET_WORKER,
    SERVER,
    WORKER,
    DevServerUnit,
    Temporal,
    fleet_units,
)
from syncpod.cli.machine.units_of_node import as_unit, unit_settings
from syncpod.temporal.plugin import NoServer, connection_settings


def install_fleet(listen: str, names: Sequence[str], state_dir: str, *, only_print: bool) -> None:
    """Write and start the units, or only print them.

    `listen` and `names` are the address of the gate and its host names. Raises BadInput, also while the fleet's
    processes run without units, and Failure.
    """
    directory = settings(state_dir=state_dir).state_dir
    if parts := fleet_processes.served_parts(directory):
        raise BadInput(f"{' and '.join(parts)} run: `{program()} fleet down` ends that, so that systemd can serve it")
    units = fleet_units(unit_settings(directory), _temporal_server(directory), listen=listen, names=names)
    there = systemd.installed(directory)
    if SERVER in there and SERVER in units:
        units[SERVER] = there[SERVER]
    if only_print:
        show(directory, units)
        return
    systemd.require_booted()
    systemd.require_ours(directory, units)
    prepare(directory)
    changed = write(directory, units)
    systemd.start([each for each in (SERVER, FLEET_WORKER, FLEET_GATE) if each in units], changed)
    say(f"the fleet of {directory} is served by {', '.join(sorted(units))}")
    enable_linger()


def uninstall_fleet(state_dir: str) -> None:
    """Stop and remove the units, but not that of a server that the node's units use. Raises Failure."""
    directory = settings(state_dir=state_dir).state_dir
    there = systemd.installed(directory, FLEET_UNITS)
    if systemd.installed(directory, (WORKER,)):
        there.pop(SERVER, None)
    removed = remove(directory, there)
    if not removed:
        remark(f"No units of a fleet of {directory} are installed")
        return
    say(f"{', '.join(removed)} removed; the fleet's nodes keep running their pods")


def _temporal_server(directory: Path) -> Temporal:
    """Return the configured server, or else the state directory's own, which gets a unit. Raises BadInput."""
    try:
        config = connection_settings(default_address="")
    except NoServer as error:
        raise BadInput(str(error)) from None
    if config["target_host"]:
        return Temporal(config["target_host"], config["namespace"], None)
    running = running_server(directory)
    if running is not None and running.detached:
        raise BadInput(
            f"the Temporal server of {directory} was started by `{program()} up`: first run `{program()} install`, so "
            "that systemd runs it"
        )
    server = recorded_server(directory)
    own = (
        as_unit(server, guard=False) if server else DevServerUnit(dev_server.next_address(directory), None, guard=False)
    )
    return Temporal(own.address, dev_server.NAMESPACE, own)
