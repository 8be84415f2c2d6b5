"""Prints the logs of containers that there are, and of instances that ended."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.logged_pods import logged_pods
from syncpod.cli.machine.checked_node import this_node
from syncpod.cli.machine.containers import chosen_container, container_names
from syncpod.cli.machine.journaled_logs import journaled_log
from syncpod.cli.machine.kept_logs import noted_pod
from syncpod.cli.machine.settings import settings
from syncpod.cli.streams.log_printer import LogPrinter, has_text
from syncpod.cli.view.explanation import Clock, lifetime
from syncpod.pod import ObjectMeta, Pod

if TYPE_CHECKING:
    from syncpod.cli.input.log_request import LoggedContainers, LogManner
    from syncpod.journal.records import PodLife


def print_logs(chosen: LoggedContainers, manner: LogManner, *, most_followed: int) -> None:
    """Print the logs of containers. Raises Failure, and BadInput if more than `most_followed` would be followed."""
    pods = logged_pods(chosen.namespace, chosen.name, chosen.selector)
    logs = [
        (pod, container, node)
        for pod, node in pods
        for container in (container_names(pod) if chosen.every_container else [chosen_container(pod, chosen.container)])
    ]
    if manner.follow and len(logs) > most_followed:
        raise BadInput(
            f"{len(logs)} containers would be followed, but at most {most_followed} may be: "
            "raise --max-log-requests, or choose fewer"
        )
    asyncio.run(LogPrinter(manner).print_all(logs))


def print_restart(chosen: LoggedContainers, restart: int, uid: str, manner: LogManner) -> None:
    """Print the log of one instance, or the end of the log that the journal has. Raises Failure and BadInput.

    `restart` is its number, and `uid` the life of the pod's name; "" = the newest that has such an instance. If that is
    not the pod that exists now, a note names the life.
    """

    async def runs() -> bool:
        return False

    here, namespace, name = settings(), chosen.namespace, chosen.name
    found = journaled_log(
        here.state_dir, here.log_dir, namespace, name, chosen.container, restart, uid=uid, pod_of=_noted_pod
    )
    instance = found.instance
    if not found.is_newest or found.records.gone is not None:
        of = (
            f'pod "{name}" is gone; this is of its last life'
            if found.is_newest
            else f'this is of an earlier pod "{name}"'
        )
        remark(f"Note: {of}, {lifetime(found.records, Clock(datetime.now(UTC)))} (uid {found.life.uid})")
    if instance.never_ran and not has_text(found.path):
        named = f'restart {restart} of container "{instance.container}" in pod "{name}"'
        raise Failure(f"{named} could not be started: {instance.message or instance.reason}")
    if found.has_file:
        pod = Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid=found.life.uid))
        asyncio.run(LogPrinter(manner).print_file(pod, instance.container, found.path, runs))
        return
    said = instance.log_end.splitlines(keepends=True)
    has = "these are its last lines, from the journal" if said else "the journal has nothing of it"
    if said and (manner.since is not None or manner.timestamps):
        has = f"{has}, without the times of its lines: --since, --since-time and --timestamps have no effect"
    remark(f"Note: the log file of restart {restart} is gone; {has}")
    shown = "".join(said if manner.tail is None else said[max(0, len(said) - manner.tail) :]).encode()
    sys.stdout.write(shown[: manner.limit_bytes].decode(errors="ignore"))


def _noted_pod(life: PodLife) -> Pod | None:
    """Return the pod of a life from this node's records; None if there is no record. Blocks. Raises BadInput."""
    return noted_pod(this_node(), life.namespace, life.name, life.uid)
