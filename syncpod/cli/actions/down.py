"""Deletes this node's pods, ends the processes that ``up`` has started, and removes the state directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli import local_processes
from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.machine import fleet_processes, runtime_process
from syncpod.cli.machine import purge as purging
from syncpod.cli.machine.checked_node import context_of
from syncpod.cli.machine.ending import end_all, end_guard, end_worker
from syncpod.cli.machine.runtime_choice import choose
from syncpod.cli.machine.settings import kept_settings
from syncpod.cli.machine.state_directory import (
    exclusive,
    forget_server,
    forget_worker,
    recorded_worker,
    running_server,
    running_worker,
)
from syncpod.cli.machine.units_of_node import require_not_installed
from syncpod.cli.orphans.found_orphans import Here, chosen, staying
from syncpod.cli.orphans.removal import prune_pod
from syncpod.cli.orphans.runtime_cleanup import clear_runtime
from syncpod.cli.several import do_all
from syncpod.cli.temporal import session
from syncpod.cli.temporal.pod_apply import has_search_attributes
from syncpod.cli.temporal.pod_deletion import delete_all, pods_of
from syncpod.node.pod_records import has_records
from syncpod.node.seen_exits import forget_seen_exits
from syncpod.node.workflow_snapshots import forget_node_snapshot
from syncpod.settings.kept import forget_kept_settings, write_kept_settings
from syncpod.settings.process_records import recorded_runtime, running_runtime
from syncpod.settings.worker_record import serving
from syncpod.translation.paths import PODS

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConnectConfig

    from syncpod.cli.orphans.found_orphans import FoundOrphan
    from syncpod.settings.node import NodeSettings


_AT_ONCE: Final = 8
"""Maximum number of orphans that are ended at the same time."""
_REMOVAL_SECONDS: Final = 10.0
"""Seconds to wait until the node has removed the files of the ended pods."""
_LOOK_SECONDS: Final = 0.05


def take_down(here: NodeSettings, memory: Path, patience: timedelta | None, *, keep_pods: bool, purge: bool) -> None:
    """Delete the node's pods, unless `keep_pods`, and end its processes; with `purge`, remove all of its files.

    `memory` is the directory of its Secrets, and `patience` how long the pods may take; None = their longest grace
    period and half a minute. Raises BadInput, and Failure with how to go on.
    """
    directory = here.state_dir
    before = recorded_worker(directory)
    logs = here.log_dir if before is None else Path(before.log_dir)
    if not directory.is_dir():
        remark(f"Nothing to end: {directory} does not exist")
        return
    require_not_installed(directory)
    others = _what_others_run(directory)
    if purge:
        purging.require_ours(directory)
        if others:
            raise Failure(f"{directory} is in use by what `syncpod up` has not started: {'; '.join(others)}")
    if not keep_pods:
        _delete_pods(here, patience, everything=purge)
    ended = end_all(directory) + end_guard(directory, here.node)
    if not keep_pods:
        _forget(directory, settings_too=not purge)  # a purge that fails is repeated with the same settings
    _print_left(directory, others, ended=bool(ended), keep_pods=keep_pods)
    if purge:
        purging.purge_cgroups(here)  # first: once the directory has gone, this cannot be repeated
        purging.purge(directory, memory, logs)
        say(f"{directory} removed")


def _print_left(directory: Path, others: Sequence[str], *, ended: bool, keep_pods: bool) -> None:
    """Print which processes keep running, and a sentence if nothing was ended."""
    if not ended:
        word = "ended" if others else "to end"
        remark(f"Nothing {word}: nothing that `syncpod up` has started runs in {directory}")
    for what in others:
        remark(f"Note: {what} was not started by `syncpod up`; it keeps running until it is ended where it was started")
    if ended and keep_pods:
        say(f"the pods keep running; `{program()} up` serves them again")


# --- pods -------------------------------------------------------------------------------------------------------------


def _delete_pods(here: NodeSettings, patience: timedelta | None, *, everything: bool) -> None:
    """Delete the pods that the worker of `up` serves or served, and wait for their end.

    The processes that this needs are started if they do not run: otherwise the pods would come back with the next `up`.
    If `everything` is removed next, a failure to end simulated pods is only noted: they are just files and workflows.
    """
    directory = here.state_dir
    before, kept = recorded_worker(directory), kept_settings(directory)
    try:
        if before is not None:
            here = local_processes.as_before(here, before)
            server = local_processes.start_server_of(here, before)
            if pods_of(server.config, here.node):
                if followed := _end_follower(directory):
                    remark(
                        f"The worker followed {followed}: another one, which does not, is started to delete the pods"
                    )
                elif serving(directory) is None:
                    remark("No worker runs: one is started to delete the pods")
                local_processes.start_node(here, choose(here), server)
                try:
                    _end_orphans(server.config, here)
                    delete_all(server.config, here, patience)
                    _let_the_node_remove(directory, everything=everything)
                except Failure as failure:
                    if not (everything and before.own_server and _simulates(directory)):
                        raise
                    remark(
                        f"{failure}\nNote: nothing of them runs, since they are simulated: they are removed as they are"
                    )
                    return
        elif (worker := serving(directory)) is not None:
            remark(f"Note: the pods of node {worker.node}, whose worker `syncpod up` has not started, are not deleted")
            return
        own = recorded_runtime(directory)
        if runtime_process.has_pods(directory) and (everything or (own is not None and own.detached)):
            clear_runtime(here, simulated=own is not None and own.simulated, everything=everything)
    except Failure as failure:
        raise Failure(f"{failure}\n{_how_to_go_on(directory)}", failure.code) from None
    finally:
        # Undo the settings of the worker that only deleted pods: the node's next worker must not have them.
        if kept.node and kept_settings(directory) != kept:
            write_kept_settings(directory, kept)


def _end_orphans(config: ClientConnectConfig, here: NodeSettings) -> None:
    """End the pods that run without a workflow, with their own grace periods. Raises Failure."""
    worker = serving(here.state_dir)
    if worker is None:
        return
    node = replace(context_of(here), name=worker.node, memory_dir=Path(worker.memory_dir))
    place = Here(node, worker.endpoint)

    async def work(client: Client) -> None:
        orphans, _ = await chosen(client, place, (), namespace="")
        has_attributes = await has_search_attributes(client)

        async def end(orphan: FoundOrphan) -> None:
            await prune_pod(client, place, orphan, None, has_attributes=has_attributes)
            say(f'pod "{orphan.pod.name}" deleted from {orphan.pod.namespace} namespace')

        await do_all([end(orphan) for orphan in await staying(place, orphans)], at_once=_AT_ONCE)

    session.run_on(config, work, here.state_dir)


def _let_the_node_remove(directory: Path, *, everything: bool) -> None:
    """Wait until the node has removed its pods' files, _REMOVAL_SECONDS at most: files left would look like orphans.

    If `everything` is removed next, files left are not worth a note.
    """
    deadline, pods = time.monotonic() + _REMOVAL_SECONDS, directory / PODS
    while left := len(list(pods.iterdir())) if pods.is_dir() else 0:
        if time.monotonic() > deadline:
            if not everything:
                remark(
                    f"Note: files of {left} pods are not removed yet: if the worker ends first, the next `up` does it"
                )
            return
        time.sleep(_LOOK_SECONDS)


def _simulates(directory: Path) -> bool:
    """Return whether the state directory's runtime only simulates, so that no container outlives it."""
    own = recorded_runtime(directory)
    return own is not None and own.detached and own.simulated


def _end_follower(directory: Path) -> str:
    """End the worker if it takes pods from a directory or a cluster: it would start them again as soon as they end.

    Return the directory of manifests, or the cluster; "" if no worker was ended.
    """
    worker = serving(directory)
    if worker is None or not (worker.manifest_dir or worker.kubeconfig) or not end_worker(directory):
        return ""
    cluster = [f"the Kubernetes cluster of {worker.kubeconfig}"] if worker.kubeconfig else []
    return " and ".join([*([worker.manifest_dir] if worker.manifest_dir else []), *cluster])


def _how_to_go_on(directory: Path) -> str:
    """Return which processes still run, and how to go on."""
    server, runtime, worker = running_server(directory), running_runtime(directory), serving(directory)
    running = [f"the Temporal server (pid {server.process.pid})"] if server else []
    running += [f"the embedded runtime (pid {runtime.process.pid})"] if runtime else []
    running += [f"the worker (pid {worker.pid})"] if worker else []
    us = program()
    if not running:
        return f"nothing of this node's is running any more; `{us} down` tries again"
    what = f"{', '.join(running)} {'is' if len(running) == 1 else 'are'} still running"
    return f"{what}; `{us} down` continues, `{us} down --keep-pods` ends these processes and leaves the pods running"


# --- processes -------------------------------------------------------------------------------------------------------


def _forget(directory: Path, *, settings_too: bool) -> None:
    """Remove the records of ended processes.

    With `settings_too`, a node without pods may then get another name or runtime.
    """
    with exclusive(directory):
        if running_server(directory) is None:
            forget_server(directory)
        if running_worker(directory) is None:
            forget_worker(directory)
        if running_runtime(directory) is None:
            runtime_process.forget(directory)
        if serving(directory) is None and not has_records(directory):
            if settings_too:
                forget_kept_settings(directory)
            forget_node_snapshot(directory)
            forget_seen_exits(directory)


def _what_others_run(directory: Path) -> list[str]:
    """Return the processes that use the state directory but were not started by `up`."""
    found = []
    ours = running_worker(directory)
    if (worker := serving(directory)) is not None and (ours is None or ours.pid != worker.pid):
        found.append(f"the worker (pid {worker.pid})")
    if (runtime := running_runtime(directory)) is not None and not runtime.detached:
        found.append(f"the embedded runtime at {runtime.endpoint} (pid {runtime.process.pid})")
    if (server := running_server(directory)) is not None and not server.detached:
        found.append(f"the Temporal server at {server.address} (pid {server.process.pid})")
    found += fleet_processes.served_parts(directory)
    return found
