"""``syncpod logs``: what containers have written."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.arguments import pod_names, read_selector
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.options import Container, Namespace, PodNames, Selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import Client

    from syncpod.cli.containers import Instance
    from syncpod.cli.log_lines import LogLine
    from syncpod.cri.client import CriClient
    from syncpod.pod import Pod

_SELECTED_TAIL = 10
"""Lines of each container when pods are chosen by label, as kubectl has it."""


def logs(
    what: PodNames = None,
    namespace: Namespace = "default",
    selector: Selector = "",
    container: Container = "",
    all_containers: Annotated[bool, typer.Option("--all-containers", help="Those of all containers.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the container ends.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the instance before the last restart.")
    ] = False,
    tail: Annotated[int, typer.Option("--tail", metavar="N", help="Only the last N lines.", show_default="all")] = -1,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Not older than this: 10s, 5m.")] = "",
    since_time: Annotated[str, typer.Option("--since-time", metavar="TIME", help="Not before: RFC 3339.")] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="With the time of each line.")] = False,
    prefix: Annotated[bool, typer.Option("--prefix", help="With pod and container before each line.")] = False,
) -> None:
    """Print what a pod's containers have written.

    Reads the files that the runtime writes on this machine.
    """
    from syncpod.cli import session

    words = what or []
    conditions = read_selector(selector)
    if len(words) == 2 and "/" not in words[1] and not container:
        words, container = words[:1], words[1]
    names = [words[0].rpartition("/")[2]] if len(words) == 1 else pod_names(words)
    if bool(names) == bool(conditions.requirements) or len(names) > 1:
        raise BadInput("name one pod, or choose pods with --selector")
    if container and all_containers:
        raise BadInput("either --container or --all-containers")
    if follow and previous:
        raise BadInput("the previous instance has ended: --previous and --follow do not go together")
    if tail < -1:
        raise BadInput("--tail: must be 0 or more lines")
    reader = _Reader(
        follow=follow,
        previous=previous,
        tail=(_SELECTED_TAIL if conditions.requirements else None) if tail == -1 else tail,
        since=_since(since, since_time),
        timestamps=timestamps,
        prefix=prefix,
    )

    async def work(client: Client) -> None:
        from syncpod.cli.containers import chosen_container, container_names
        from syncpod.cli.pods import list_pods, note_absent_nodes, require_pod

        if names:
            pods = [(await require_pod(client, namespace, names[0])).pod]
        else:
            readings = await list_pods(client, namespace, conditions)
            note_absent_nodes(readings)
            pods = [reading.pod for reading in readings if reading.current]
        if not pods:
            remark(f"No resources found in {namespace} namespace.")
        chosen = [
            (pod, name)
            for pod in pods
            for name in (container_names(pod) if all_containers else [chosen_container(pod, container)])
        ]
        await reader.read(chosen)

    session.run(work)


def _since(span: str, moment: str) -> datetime | None:
    from syncpod.cli.durations import parse_duration

    if span and moment:
        raise BadInput("either --since or --since-time")
    try:
        if span:
            return datetime.now(UTC) - parse_duration(span)
        if not moment:
            return None
        at = datetime.fromisoformat(moment)
    except ValueError as wrong:
        raise BadInput(f"--since: {wrong}" if span else f"--since-time: {moment!r} is no RFC 3339 time") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class _Reader:
    """Reads logs in one manner."""

    def __init__(
        self,
        *,
        follow: bool,
        previous: bool,
        tail: int | None,
        since: datetime | None,
        timestamps: bool,
        prefix: bool,
    ) -> None:
        self._follow = follow
        self._previous = previous
        self._tail = tail
        self._since = since
        self._timestamps = timestamps
        self._prefix = prefix

    async def read(self, chosen: Sequence[tuple[Pod, str]]) -> None:
        """Print the logs of containers, one after the other, or all as they grow. Raises Failure for those without."""
        from syncpod.cli.containers import current_instance, previous_instance, runtime_of

        failures = []
        found = []
        for pod, container in chosen:
            try:
                instance = (previous_instance if self._previous else current_instance)(pod, container)
                found.append((pod, container, instance, runtime_of(pod)))
            except Failure as failure:
                failures.append(failure)
        reads = [self._print(*one) for one in found]
        if self._follow:
            await asyncio.gather(*reads)
        else:
            for read in reads:
                await read
        if failures:
            raise Failure("\n".join(map(str, failures)), max(failure.code for failure in failures))

    async def _print(self, pod: Pod, container: str, instance: Instance, runtime: CriClient) -> None:
        from syncpod.cli.log_files import read_log
        from syncpod.cri.errors import CriError

        async def runs() -> bool:
            try:
                return (await runtime.container_status(instance.id)).state == "running"
            except CriError:
                return False

        head = f"[pod/{pod.metadata.name}/{container}] ".encode() if self._prefix else b""
        async with runtime:
            path = await _log_path(pod, container, instance, runtime)
            lines = read_log(path, tail=self._tail, since=self._since, runs=runs if self._follow else None)
            try:
                async for line in lines:
                    self._write(head, line)
            except FileNotFoundError:
                raise Failure(f'the log of container "{container}" is gone: {path}') from None
            except PermissionError:
                raise BadInput(f"{path}: permission denied; run as root") from None

    def _write(self, head: bytes, line: LogLine) -> None:
        stamp = f"{line.stamp} ".encode() if self._timestamps else b""
        sys.stdout.buffer.write(head + stamp + line.text + b"\n")
        if self._follow:
            sys.stdout.buffer.flush()


async def _log_path(pod: Pod, container: str, instance: Instance, runtime: CriClient) -> Path:
    """Return the instance's log: where the runtime says, else, for one that is removed, where such logs lie."""
    from syncpod.cli.containers import unanswered
    from syncpod.cli.settings import settings
    from syncpod.cri.errors import CriError, NotFound, TransportFault

    try:
        return Path((await runtime.container_status(instance.id)).log_path)
    except NotFound:
        meta = pod.metadata
        directory = settings().log_dir / f"{meta.namespace}_{meta.name}_{meta.uid}" / container
        return directory / f"{instance.restart}.log"
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f'the runtime does not tell of container "{container}": {error.message or error.code}') from None
