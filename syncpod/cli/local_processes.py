"""The processes that pods need on this machine, started if they do not run: Temporal server, runtime, worker."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from syncpod.cli.console import paint, program, remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine import dev_server, port_guard, runtime_process, worker_process
from syncpod.cli.machine.ending import end_all_unrecorded
from syncpod.cli.machine.listening_process import listening_ports, somebody_listens
from syncpod.cli.machine.settings import kept_settings, settings
from syncpod.cli.machine.state_directory import (
    ServerRecord,
    StartedWorker,
    recorded_server,
    recorded_worker,
    running_server,
    running_worker,
)
from syncpod.cli.temporal import session
from syncpod.settings.node import NodeSettings
from syncpod.settings.process_records import RuntimeRecord, running_runtime
from syncpod.settings.table import first_difference
from syncpod.settings.worker_record import WorkerRecord, serving
from syncpod.temporal.plugin import NoServer, connection_settings

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli.machine.runtime_choice import Choice


_COMPARED_ELSEWHERE: Final = frozenset(("node", "runtime_endpoint", "signed", "encrypt"))
"""Settings that other checks compare, with an error text of their own."""
_UNBOUNDED = "cpu=1M,memory=1Ei,ephemeral-storage=1Ei"
"""The capacity of a node with the simulated runtime, whose containers use no resources."""


@dataclass(frozen=True)
class Server:
    """The Temporal server."""

    config: ClientConnectConfig
    own: ServerRecord | None
    """Our own server; None = another one is used: the configured one, or that of the node's last start."""
    started: bool = False


@dataclass(frozen=True)
class LocalNode:
    """Runtime and worker of this machine."""

    worker: WorkerRecord
    own: RuntimeRecord | None
    """The embedded runtime; None = another runtime is used."""
    started: bool


class Ports(NamedTuple):
    """The options of our own server that the user has given."""

    server: int | None = None
    """Its port; None = any."""
    ui: int | None = None
    """The port of its UI; None = any."""
    has_ui: bool = False
    """Whether a UI was requested. Otherwise the last server's choice holds; at first, root's server has no UI."""
    guard: bool = False
    """Whether only its owner and root may connect, by a packet-filter rule (--guard). False keeps an earlier rule."""


_ANY_PORTS: Final = Ports()


def start_server(here: NodeSettings, ports: Ports = _ANY_PORTS) -> Server:
    """Return the server to use: the configured one, else the node's, else our own, started if it does not run.

    The node's server is the one that its worker was last started with, if that is not our own. Raises Failure, before
    anything is started, if a worker of the state directory uses another server.
    """
    try:
        config = connection_settings(default_address="")
    except NoServer as error:
        raise BadInput(str(error)) from None
    end_all_unrecorded(here.state_dir)
    own = running_server(here.state_dir)
    if config["target_host"] and not _is_own(here, own, config["target_host"]):
        _require_workers(here, config["target_host"], config["namespace"])
        _require_no_ports(ports, config["target_host"])
        return Server(config, None)
    if (other := _server_of_others(here)) is not None:
        config["target_host"], config["namespace"] = other
        _require_workers(here, *other)
        _require_no_ports(ports, config["target_host"])
        return Server(config, None)
    if own is None:
        _require_workers(here, dev_server.next_address(here.state_dir, ports.server), config["namespace"])
    return _start_own_server(here, ports)


def _is_own(here: NodeSettings, own: ServerRecord | None, address: str) -> bool:
    """Return whether an address is that of our own server, or of our last one if nothing listens there now.

    An environment from ``syncpod env`` may still have the last one's address.
    """
    if own is not None:
        return own.address == address
    before = recorded_server(here.state_dir)
    return before is not None and before.address == address and not somebody_listens(address)


def _require_no_ports(ports: Ports, address: str) -> None:
    if any(ports):
        raise BadInput(
            f"--port, --ui-port, --ui, --guard: apply only to a server that `up` starts, but the one at {address} is "
            "used"
        )


def _server_of_others(here: NodeSettings) -> tuple[str, str] | None:
    """Return the address and namespace of the server that the node was last started with.

    None if that was our own server, or if the node has never been started.
    """
    before = recorded_worker(here.state_dir)
    if before is not None:
        return None if before.own_server else (before.address, before.namespace)
    kept, own = kept_settings(here.state_dir), recorded_server(here.state_dir)
    if not kept.address or (own is not None and own.address == kept.address):
        return None
    return kept.address, kept.namespace


def start_server_of(here: NodeSettings, before: StartedWorker) -> Server:
    """Return the server that a worker was started with, whatever is configured now. Raises Failure."""
    end_all_unrecorded(here.state_dir)
    if before.own_server:
        return _start_own_server(here)
    try:
        config = connection_settings(default_address=before.address)
    except NoServer as error:
        raise BadInput(str(error)) from None
    config["target_host"], config["namespace"] = before.address, before.namespace
    return Server(config, None)


def _start_own_server(here: NodeSettings, ports: Ports = _ANY_PORTS) -> Server:
    try:
        server, child = dev_server.start(here.state_dir, port=ports.server, ui_port=ports.ui, ui=ports.has_ui)
        if child is None:
            _require_ports(server, ports)
        guard = port_guard.set_guard if ports.guard else port_guard.renew_guard
        guard(here.node, listening_ports(server.process.pid))
        if child is not None:
            remark(paint(f"Temporal server started (pid {child.pid})", "dim"))
        config = connection_settings(default_address=server.address)
        config["target_host"] = server.address
        return Server(config, server, child is not None)
    except NoServer as error:
        raise BadInput(str(error)) from None


def _require_ports(server: ServerRecord, ports: Ports) -> None:
    """Raise BadInput if our running server has other ports than requested, or lacks a requested UI."""
    runs = f"the Temporal server runs already, at {server.address} "
    runs += f"with its UI at {server.ui}: " if server.ui else "without a UI: "
    runs += f"end it first with `{program()} down --keep-pods`"
    for wanted, there in ((ports.server, server.address), (ports.ui, server.ui)):
        if wanted is not None and str(wanted) != there.rpartition(":")[2]:
            raise BadInput(f"port {wanted}: {runs}")
    if ports.has_ui and not server.ui:
        raise BadInput(f"--ui: {runs}")


def start_node(here: NodeSettings, choice: Choice, server: Server) -> LocalNode:
    """Return the runtime and the worker of this machine, each started if it does not run.

    Raises Failure, also if the running worker has another runtime, server or other settings than requested.
    """
    config = server.config
    asyncio.run(session.connect(config))  # report a missing server here, not from the worker's log
    if server.own is not None and _server_of_others(here) is None:
        here = replace(here, adopt_cluster=True)  # our own server with a new database is still the node's
    own, runtime_started = _start_runtime(here, choice)
    endpoint = own.endpoint if own is not None else choice.endpoint
    if own is not None and own.simulated:
        here = replace(here, capacity=here.capacity or _UNBOUNDED, pod_cgroups=False)
    worker, started = worker_process.start(here, endpoint, config, own_server=server.own is not None)
    if started:
        remark(paint(f"worker started (pid {worker.pid})", "dim"))
        if server.own is not None:
            dev_server.give_back_start_pages(server.own)
        return LocalNode(worker, own, started)
    _require_server(here, worker, config["target_host"], config["namespace"])
    if kept_settings(here.state_dir).encrypts != here.encrypt:
        has, wanted = ("plain", "encrypted") if here.encrypt else ("encrypted", "plain")
        raise Failure(
            f"{_whose(here, worker)} sends {has} payloads to Temporal, not {wanted} ones: {_how_to_end(here, worker)}"
        )
    if worker.endpoint != endpoint:
        raise Failure(
            f"{_whose(here, worker)} uses the runtime at {worker.endpoint}, not {endpoint}: {_how_to_end(here, worker)}"
        )
    _require_same_settings(here, worker)
    return LocalNode(worker, own, runtime_started)


def _require_same_settings(here: NodeSettings, worker: WorkerRecord) -> None:
    """Raise Failure if the running worker was started with another value of a setting than requested.

    Where nothing is requested, `here` has the value of the last start.
    """
    kept = kept_settings(here.state_dir).variables
    if differs := first_difference(kept, here.given, apart_from=_COMPARED_ELSEWHERE):
        raise Failure(f"{_whose(here, worker)} was started {differs}: {_how_to_end(here, worker)}")


def _require_workers(here: NodeSettings, address: str, namespace: str) -> None:
    """Raise Failure if the running worker uses another server."""
    worker = serving(here.state_dir)
    if worker is not None:
        _require_server(here, worker, address, namespace)


def _require_server(here: NodeSettings, worker: WorkerRecord, address: str, namespace: str) -> None:
    if (worker.address, worker.namespace) != (address, namespace):
        raise Failure(
            f"{_whose(here, worker)} serves Temporal {worker.address} namespace {worker.namespace}, "
            f"not {address} namespace {namespace}: {_how_to_end(here, worker)}, "
            f"or name its server in TEMPORAL_ADDRESS"
        )


def _whose(here: NodeSettings, worker: WorkerRecord) -> str:
    return f"the worker of {here.state_dir} (pid {worker.pid})"


def _how_to_end(here: NodeSettings, worker: WorkerRecord) -> str:
    """Return how to end a worker: `down` ends only those that `up` started."""
    ours = running_worker(here.state_dir)
    if ours is None or ours.pid != worker.pid:
        return f"end it first with `kill {worker.pid}`"
    flag = "" if here.state_dir == settings().state_dir else f" --state-dir {shlex.quote(str(here.state_dir))}"
    return f"end it and its pods first with `{program()} down{flag}`, or it alone with --keep-pods"


def _start_runtime(here: NodeSettings, choice: Choice) -> tuple[RuntimeRecord | None, bool]:
    if not choice.embedded:
        return None, False
    if running_runtime(here.state_dir) is None:
        remark(choice.why)
    record, started = runtime_process.start(here.state_dir, simulated=choice.simulated, environ=os.environ)
    if started:
        remark(paint(f"embedded runtime started (pid {record.process.pid})", "dim"))
        for weakness in runtime_process.weaknesses(record.endpoint):
            remark(f"Note: {weakness}")
    return record, started


def as_before(here: NodeSettings, before: StartedWorker) -> NodeSettings:
    """Return the settings with which `up` last started the worker, without its manifest directory and cluster.

    The settings are for a worker that only deletes pods, and so must take no pods from these sources.
    """
    return replace(
        here,
        node=before.node,
        memory_dir=Path(before.memory_dir) if before.memory_dir else here.memory_dir,
        log_dir=Path(before.log_dir),
        manifest_dir=None,
        kubeconfig=None,
        runtime_endpoint=before.endpoint,
    )
