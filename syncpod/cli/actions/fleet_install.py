"""The work of ``syncpod fleet install`` and ``syncpod fleet uninstall``: a fleet's worker and gate as systemd units."""

from __future__ import annotations

from pathlib import Path

from syncpod.cli.console import program
from syncpod.cli.failure import BadInput
from syncpod.cli.machine import dev_server
from syncpod.cli.machine.state_directory import recorded_server, running_server
from syncpod.cli.machine.systemd_units import (
    DevServerUnit,
    Temporal,
)
from syncpod.cli.machine.units_of_node import as_unit
from syncpod.temporal.plugin import NoServer, connection_settings


def temporal_server(directory: Path) -> Temporal:
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
