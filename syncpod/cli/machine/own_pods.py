"""Pods as this machine's worker has them, for commands that need nothing else of Temporal.

The worker knows which pods are open, since it has a connection to the server. A command that asks the server itself
imports the Temporal SDK and the models first, which takes ten times as long as everything else that it does. Unusual
cases are left to that way, which has the right messages for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncpod.api import client
from syncpod.api.messages import TABLE
from syncpod.cli.failure import BadInput
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import running_server
from syncpod.cli.machine.worker_process import serving

if TYPE_CHECKING:
    from syncpod.pod import Pod

_ADDRESS: Final = "TEMPORAL_ADDRESS"
_NAMESPACE: Final = "TEMPORAL_NAMESPACE"
_OF_OTHERS: Final = ("TEMPORAL_CLI_", "TEMPORAL_CODEC_")
"""Beginnings of variables for `tctl` and `temporal`, which `syncpod env` sets and our connection does not depend on."""
_CONFIGURATION: Final = Path("temporalio", "temporal.toml")


def told_pods(namespace: str | None, names: Sequence[str] = ()) -> list[dict[str, Any]] | None:
    """Return the open pods of a namespace (None = all), those of these names if there are any, by namespace and name.

    Each is the Pod's JSON as its workflow published it last. None: the worker is away or busy, does not know all of
    them, or serves another server than the one that commands are sent to. Then the server must be asked.
    """
    directory = _told_here()
    told = None if directory is None else client.listed(directory, "pods", namespace, names)
    return None if told is None else [pod for pod in told["items"] if not names or pod["metadata"]["name"] in names]


def table_of_pods(
    namespace: str | None, names: Sequence[str] = (), *, selectors: Mapping[str, str], whole: bool = False
) -> dict[str, Any] | None:
    """Return the same pods as a Table: a worker that has just begun has of some only what the server recorded last.

    `selectors` are `labelSelector` and `fieldSelector`. With `whole`, each row has the Pod, else its metadata alone.
    """
    directory = _told_here()
    if directory is None:
        return None
    query = {**selectors} | ({"includeObject": "Object"} if whole else {})
    told = client.listed(directory, "pods", namespace, names, query, accept=TABLE)
    if told is None or told.get("kind") != "Table":
        return None
    rows = [row for row in told["rows"] if not names or row["object"]["metadata"]["name"] in names]
    return {**told, "rows": rows}


def told_reports(namespace: str | None, names: Sequence[str], *parts: str) -> list[dict[str, Any]] | None:
    """Return the reports of these pods in the same way, with these parts (:data:`syncpod.api.source.PARTS`)."""
    directory = _told_here()
    return None if directory is None else client.reports(directory, namespace, names, *parts)


def told_description(namespace: str, name: str, pages: str) -> client.Reply | None:
    """Return the worker's answer about how a pod is described; None if the server has to be asked.

    `pages` is where Temporal's UI has the pages of workflows; "" = not known. There may be no such pod: code 404.
    """
    directory = _told_here()
    path = f"{client.OURS}/namespaces/{namespace}/podreports/{name}/description"
    reply = None if directory is None else client.ask(directory, path, [("workflows", pages)])
    return reply if reply is not None and reply.code in (200, 404) else None


def own_server() -> tuple[str, str] | None:
    """Return the server and its namespace that this machine's worker serves, if commands are sent to it."""
    directory = _told_here()
    worker = None if directory is None else serving(directory)
    return None if worker is None else (worker.address, worker.namespace)


def _told_here() -> Path | None:
    """Return the state directory of the node whose worker may be asked; None if the server must be."""
    try:
        directory = settings().state_dir
    except BadInput:
        return None
    target = server_of(directory, os.environ)
    worker = serving(directory)
    if target is None or worker is None or (worker.address, worker.namespace) != target:
        return None
    return directory


def told_pod(namespace: str, name: str) -> Pod | None:
    """Return one open pod in the same way; None also if there is none."""
    told = told_pods(namespace, [name])
    if not told:
        return None
    from syncpod.pod import Pod

    return Pod.model_validate(told[0])


def server_of(directory: Path, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the server and its namespace that commands are sent to, None if that takes more to find out.

    As in :func:`syncpod.cli.temporal.session.connection`, where nothing but the two usual variables says where.
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
