"""Finds out whether this machine's worker can answer commands in place of the Temporal server that it serves.

A command that queries the worker needs no Temporal SDK, whose import takes ten times as long as a whole short command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import running_server
from syncpod.settings.worker_record import serving, serving_at

_ADDRESS: Final = "TEMPORAL_ADDRESS"
_NAMESPACE: Final = "TEMPORAL_NAMESPACE"
_OF_OTHERS: Final = ("TEMPORAL_CLI_", "TEMPORAL_CODEC_")
"""Prefixes of variables that `syncpod env` sets for `tctl` and `temporal`. Our connection does not depend on them."""
_CONFIGURATION: Final = Path("temporalio", "temporal.toml")


def own_server() -> tuple[str, str] | None:
    """Return address and namespace of the server that commands use, if this machine's worker serves it; else None."""
    directory = state_of_own_worker()
    worker = None if directory is None else serving(directory)
    return None if worker is None else (worker.address, worker.namespace)


def state_of_own_worker() -> Path | None:
    """Return the state directory of the worker that can answer for the server; None if the server must be queried."""
    try:
        directory = settings().state_dir
    except BadInput:
        return None
    target = server_of(directory, os.environ)
    return directory if target is not None and serving_at(directory, *target) is not None else None


def server_of(directory: Path, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return address and namespace of the server that commands use; None if only the Temporal SDK can find it.

    If only TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE are set, it agrees with
    :func:`syncpod.cli.temporal.session.connection`.
    """
    said = {name for name in environ if name.startswith("TEMPORAL_") and not name.startswith(_OF_OTHERS)}
    if said - {_ADDRESS, _NAMESPACE} or not all(environ[name] for name in said):
        return None
    homes = [Path(environ.get("XDG_CONFIG_HOME") or "~/.config"), Path("~/.config")]
    try:
        if any((home.expanduser() / _CONFIGURATION).exists() for home in homes):
            return None
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return None
    address = environ.get(_ADDRESS)
    if address is None:
        own = running_server(directory)
        address = own.address if own is not None else None
    return None if address is None else (address, environ.get(_NAMESPACE, "default"))
