"""Prints the logs of containers from the runtime's files on this machine: once, or following them as they grow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.api.client import listed
from syncpod.cli.console import remark
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.containers import current_instance, previous_instance
from syncpod.cli.machine.journaled_logs import why_never_ran
from syncpod.cli.machine.kept_logs import newest_log
from syncpod.cli.machine.own_worker import state_of_own_worker
from syncpod.cli.machine.runtime_client import runtime_of, unanswered
from syncpod.cli.machine.settings import settings
from syncpod.cri.errors import CriError, NotFound, TransportFault
from syncpod.node.log_lines import LogText
from syncpod.node.log_reading import LogUnreadable, read_blocks

if TYPE_CHECKING:
    from syncpod.cli.input.log_request import LogManner
    from syncpod.cli.machine.containers import ContainerInstance
    from syncpod.cri.client import CriClient
    from syncpod.node.log_reading import Runs
    from syncpod.pod import Pod
    from syncpod.translation.context import NodeContext


class LogPrinter:
    """Reads and prints logs in the manner that the user has chosen."""

    def __init__(self, manner: LogManner) -> None:
        """Print in this manner."""
        self._manner = manner

    async def print_all(self, chosen: Sequence[tuple[Pod, str, NodeContext | None]]) -> None:
        """Print the logs of containers: one after the other, or all at once if they are followed.

        `chosen` has pods, containers and nodes. With a node, the log is searched in that node's files; without one, the
        pod's status identifies the log. Raises Failure for unreadable logs.

        Difference from kubectl: all readable logs are printed before the failure.
        """
        if self._manner.follow:
            outcomes = await asyncio.gather(*(self._attempt(*one) for one in chosen))
            for sentence in await asyncio.to_thread(_of_deleted, [pod for pod, _, _ in chosen]):
                remark(sentence)
        else:
            outcomes = [await self._attempt(*one) for one in chosen]
        failures = [failure for failure in outcomes if failure is not None]
        if not failures:
            return
        if not self._manner.ignore_errors:
            raise Failure("\n".join(map(str, failures)), max(failure.code for failure in failures))
        for failure in failures:
            remark(str(failure))

    async def _attempt(self, pod: Pod, container: str, node: NodeContext | None) -> Failure | None:
        try:
            if node is None:
                await self._print_instance(pod, container)
            else:
                await self._print_kept(pod, container, node)
        except Failure as failure:
            return failure
        return None

    async def _print_instance(self, pod: Pod, container: str) -> None:
        """Print the log of the instance in the pod's status, from the path that the runtime reports."""
        instance = (previous_instance if self._manner.previous else current_instance)(pod, container)
        runtime = runtime_of(pod)

        async def runs() -> bool:
            try:
                return (await runtime.container_status(instance.id)).container.state == "running"
            except CriError:
                return False

        async with runtime:
            path = await _log_path(pod, container, instance, runtime)
            if instance.why_no_log and not await asyncio.to_thread(has_text, path):
                raise Failure(instance.why_no_log)
            await self.print_file(pod, container, path, runs)

    async def _print_kept(self, pod: Pod, container: str, node: NodeContext) -> None:
        """Print the container's newest log in the node's files, or the previous one.

        The newest one is followed until the user interrupts it, since nothing reports the container's end.
        """

        async def runs() -> bool:
            return not self._manner.previous

        path = await asyncio.to_thread(newest_log, node, pod, container, previous=self._manner.previous)
        if not await asyncio.to_thread(has_text, path):
            await asyncio.to_thread(_require_run, node, pod, container, path)
        await self.print_file(pod, container, path, runs)

    async def print_file(self, pod: Pod, container: str, path: Path, runs: Runs) -> None:
        """Print the log at a path. A followed log is printed until `runs` returns False. Raises Failure."""
        text = LogText(
            timestamps=self._manner.timestamps,
            head=f"[pod/{pod.metadata.name}/{container}] ".encode() if self._manner.prefix else b"",
            since=self._manner.since,
            limit_bytes=self._manner.limit_bytes,
        )
        blocks = read_blocks(
            path, tail=self._manner.tail, rotated=self._manner.rotated, runs=runs if self._manner.follow else None
        )
        try:
            async for block in blocks:
                self._write(text.feed(block))
                if text.full:
                    return
            self._write(text.flush())
        except FileNotFoundError:
            if self._manner.previous:  # a node keeps only the newest dead instance with its log
                sentence = f'previous terminated container "{container}" in pod "{pod.metadata.name}" not found'
                raise Failure(f"{sentence}: it has been removed together with its log") from None
            raise Failure(f'the log of container "{container}" is gone: {path}') from None
        except LogUnreadable as why:
            raise Failure(f'the log of container "{container}" cannot be read: {why}: {path}') from None
        except PermissionError:
            raise BadInput(f"{path}: permission denied; run as root") from None
        finally:
            await blocks.aclose()

    def _write(self, text: bytes) -> None:
        sys.stdout.buffer.write(text)
        if self._manner.follow:
            sys.stdout.buffer.flush()


def _of_deleted(pods: Sequence[Pod]) -> list[str]:
    """Return a note for each pod that logs nothing more, since it is being or has been deleted. Blocks.

    The notes leave out pods about which this machine's worker does not answer.
    """
    notes: dict[str, str] = {}
    if (directory := state_of_own_worker()) is None:
        return []
    for meta in (pod.metadata for pod in pods):
        told = listed(directory, "pods", meta.namespace, [meta.name])
        if told is None:
            continue
        same = [each["metadata"] for each in told["items"] if each["metadata"].get("uid") == meta.uid]
        if not same or same[0].get("deletionTimestamp"):
            is_being = "is being" if same else "has been"
            notes[meta.uid] = f'Note: pod "{meta.name}" {is_being} deleted, and logs nothing more'
    return list(notes.values())


def _require_run(node: NodeContext, pod: Pod, container: str, path: Path) -> None:
    """Raise Failure if the journal has recorded that the instance of this log could not be started. Blocks."""
    life = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    number = path.stem  # the `3` of `3.log`
    why = why_never_ran(node.state_dir, life, container, int(number)) if number.isdecimal() else ""
    if why:
        named = f'container "{container}" in pod "{pod.metadata.name}"'
        raise Failure(f"{named} could not be started, so it has no log: {why}")


def has_text(path: Path) -> bool:
    """Return whether a log has anything in it. Blocks."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


async def _log_path(pod: Pod, container: str, instance: ContainerInstance, runtime: CriClient) -> Path:
    """Return the path of the instance's log: from the runtime, or the usual one if the instance was removed."""
    try:
        return Path((await runtime.container_status(instance.id)).container.log_path)
    except NotFound:
        meta = pod.metadata
        directory = settings().log_dir / f"{meta.namespace}_{meta.name}_{meta.uid}" / container
        return directory / f"{instance.restart}.log"
    except TransportFault as fault:
        raise unanswered(fault) from None
    except CriError as error:
        raise Failure(f'the runtime does not report container "{container}": {error.message or error.code}') from None
