"""``syncpod fleet install`` and ``syncpod fleet uninstall``: a fleet's worker and gate as systemd units."""

from __future__ import annotations

from syncpod.cli.actions.install import remove, show, tell_of_login, write
from syncpod.cli.commands.fleet_gate import GateNames, ListenAddress, checked_names, parse_listen
from syncpod.cli.commands.install import PrintUnits
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput
from syncpod.cli.input.options import StateDir
from syncpod.cli.machine import systemd
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_UNITS,
    FLEET_WORKER,
    SERVER,
    WORKER,
    fleet_units,
)


def install(
    listen: ListenAddress = "127.0.0.1:7300",
    name: GateNames = None,
    state_dir: StateDir = "",
    print_: PrintUnits = False,
) -> None:
    """Have systemd run a fleet's worker and gate on this machine, also after a reboot.

    They use the Temporal server that your environment or temporal.toml names, or else the state directory's own, which
    gets a unit too. First stop a worker or gate that runs in the foreground. Variables of your shell that configure
    Temporal, telemetry, proxies and syncpod are kept for the units in a file that only you can read.
    """
    from syncpod.cli.machine import fleet_processes, systemd
    from syncpod.cli.machine.settings import settings
    from syncpod.cli.machine.state_directory import prepare
    from syncpod.cli.machine.units_of_node import unit_settings

    directory = settings(state_dir=state_dir).state_dir
    parse_listen(listen)
    if parts := fleet_processes.served_parts(directory):
        raise BadInput(f"{' and '.join(parts)} run: `{program()} fleet down` ends that, so that systemd can serve it")
    from syncpod.cli.actions.fleet_install import temporal_server

    units = fleet_units(unit_settings(directory), temporal_server(directory), listen=listen, names=checked_names(name))
    there = systemd.installed(directory)
    if SERVER in there and SERVER in units:
        units[SERVER] = there[SERVER]
    if print_:
        show(directory, units)
        return
    systemd.require_booted()
    systemd.require_ours(directory, units)
    prepare(directory)
    changed = write(directory, units)
    systemd.start([each for each in (SERVER, FLEET_WORKER, FLEET_GATE) if each in units], changed)
    say(f"the fleet of {directory} is served by {', '.join(sorted(units))}")
    tell_of_login()


def uninstall(state_dir: StateDir = "") -> None:
    """Remove the systemd units of a fleet's worker and gate from this machine.

    The units are stopped and removed. The fleet's keys and its database stay. The nodes keep running their pods.
    """
    from syncpod.cli.machine.settings import settings

    directory = settings(state_dir=state_dir).state_dir
    there = systemd.installed(directory, FLEET_UNITS)
    if systemd.installed(directory, (WORKER,)):
        there.pop(SERVER, None)
    removed = remove(directory, there)
    if not removed:
        remark(f"No units of a fleet of {directory} are installed")
        return
    say(f"{', '.join(removed)} removed; the fleet's nodes keep running their pods")
