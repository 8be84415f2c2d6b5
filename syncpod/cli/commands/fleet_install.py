"""``syncpod fleet install`` and ``syncpod fleet uninstall``: a fleet's worker and gate as systemd units."""

from __future__ import annotations

from syncpod.cli.commands.fleet_gate import GateNames, ListenAddress
from syncpod.cli.commands.install import PrintUnits
from syncpod.cli.input.listen_addresses import checked_names, parse_listen
from syncpod.cli.input.options import StateDir


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
    parse_listen(listen)
    names = checked_names(name)

    from syncpod.cli.actions.fleet_install import install_fleet

    install_fleet(listen, names, state_dir, only_print=print_)


def uninstall(state_dir: StateDir = "") -> None:
    """Remove the systemd units of a fleet's worker and gate from this machine.

    The units are stopped and removed. The fleet's keys and its database stay. The nodes keep running their pods.
    """
    from syncpod.cli.actions.fleet_install import uninstall_fleet

    uninstall_fleet(state_dir)
