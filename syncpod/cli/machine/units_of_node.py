"""Chooses the systemd units of a state directory's node; keeps `up` and `down` away from a node that systemd serves."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncpod.cli.console import program
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine import port_guard, runtime_process, systemd
from syncpod.cli.machine.state_directory import ServerRecord, StartedWorker, recorded_server
from syncpod.cli.machine.systemd_units import (
    FLEET_GATE,
    FLEET_WORKER,
    RUNTIME,
    WORKER,
    DevServerUnit,
    Temporal,
    UnitSettings,
    node_units,
)
from syncpod.settings.directories import STATE_DIR
from syncpod.settings.process_records import recorded_runtime
from syncpod.settings.table import BY_VARIABLE
from syncpod.settings.worker_record import serving

ENVIRONMENT_FILE: Final = "units.env"
"""The file in the state directory with the variables that units get from the environment of their installation."""
_OURS: Final = ("TEMPORAL_", "OTEL_", "SYNCPOD_")
_OF_UNITS: Final = (*BY_VARIABLE, STATE_DIR, "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE")
"""Variables that :data:`ENVIRONMENT_FILE` lacks: the units set them, or the node has kept their values."""
_OF_THE_USER: Final = (
    *("PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *(name for each in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (each, each.upper())),
)


def unit_settings(state_dir: Path) -> UnitSettings:
    """Return the common part of the units of a state directory. Raises Failure."""
    ours = Path(sys.executable).with_name("syncpod")
    if not ours.is_file():
        raise Failure(f"{ours} is missing: install syncpod again")
    return UnitSettings(ours, state_dir, state_dir / ENVIRONMENT_FILE, systemd.is_system())


def given_to_units(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that units get: PATH, HOME, proxies, certificates, and our own that nothing else keeps."""
    return {
        name: text
        for name, text in environ.items()
        if (name.startswith(_OURS) and name not in _OF_UNITS) or name in _OF_THE_USER
    }


def units_for(state_dir: Path, worker: StartedWorker) -> dict[str, str]:
    """Return the units of the node whose worker `up` started last. Raises Failure."""
    runtime, server = recorded_runtime(state_dir), recorded_server(state_dir)
    own = None if server is None or not worker.own_server else as_unit(server, guard=port_guard.is_set(worker.node))
    embedded = runtime is not None and runtime_process.is_kept(state_dir) and runtime.endpoint == worker.endpoint
    return node_units(
        unit_settings(state_dir),
        Temporal(worker.address if own is None else own.address, worker.namespace, own),
        embedded=embedded,
        simulated=runtime is not None and runtime.simulated,
    )


def as_unit(server: ServerRecord, *, guard: bool) -> DevServerUnit:
    """Return a unit that starts the recorded Temporal server at its present address."""
    return DevServerUnit(server.address, int(server.ui.rpartition(":")[2]) if server.ui else None, guard)


def require_fleet_not_installed(state_dir: Path) -> None:
    """Raise BadInput if systemd serves the fleet of a state directory: then it must not be started or ended here."""
    if not systemd.installed(state_dir, (FLEET_WORKER, FLEET_GATE)):
        return
    us, flag = program(), "" if systemd.is_system() else "--user "
    raise BadInput(
        f"systemd serves the fleet of {state_dir}: `systemctl {flag}status 'syncpod-*'` shows it, and after `{us} "
        f"fleet uninstall`, `{us} fleet up` and `{us} fleet down` serve and end it again"
    )


def require_not_installed(state_dir: Path, *, unless_serving: bool = False) -> None:
    """Raise BadInput if systemd serves the node of a state directory: `up` and `down` must not start or end it.

    With `unless_serving`, a worker that serves is no error, since `up` then only uses it.
    """
    if not systemd.installed(state_dir, (WORKER, RUNTIME)):  # the unit of a server may be a fleet's
        return
    if unless_serving and serving(state_dir) is not None:
        return
    us, flag = program(), "" if systemd.is_system() else "--user "
    raise BadInput(
        f"systemd serves the node of {state_dir}: `systemctl {flag}start {WORKER}` starts it, `systemctl {flag}status "
        f"'syncpod-*'` shows it, and after `{us} uninstall`, `{us} up` and `{us} down` serve and end it again"
    )
