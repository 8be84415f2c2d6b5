"""Answers reads of the node's pods from what their workflows have published, without a query or a workflow task.

A query would be answered by the same worker, but it goes through the server, may cause a replay from the start, and
waits behind all other workflow tasks. See :mod:`syncpod.node.read_socket` for the wire.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from temporalio.client import WorkflowExecution

from syncpod.agent.open_pods import OpenPods, OpenPodsUnknown
from syncpod.agent.probing.untold import UntoldFailures, with_untold
from syncpod.agent.published_pods import PublishedPods, PublishedRun
from syncpod.agent.unattended_pods import WHY, Unattended, UnattendedPods
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.running_steps import RunningStep, steps_of
from syncpod.node.orphan_mark import marked
from syncpod.node.read_socket import (
    ALL_TOLD,
    ANSWER_SECONDS,
    DESCRIBED,
    HEARD,
    JOURNAL,
    LINE_LIMIT,
    PATIENCE_SECONDS,
    REPORT,
    SOCKET_NAME,
    STEPS,
    socket_address,
)
from syncpod.node.recorded_pods import recorded_pod
from syncpod.pod import pod_to_wire
from syncpod.temporal.pod_search_attributes import attribute, recorded_as

log = logging.getLogger(__name__)

_Untold = Mapping[str, Sequence[UntoldFailures]]
_Part = TypeVar("_Part")
_Steps = Mapping[str, Sequence[Mapping[str, Any]]]
"""Both by workflow id."""

_AT_ONCE: Final = 50
"""How many answers are computed in one call of a thread."""
_FEW: Final = 50
"""At most so many pods that are listed as open, and of which nothing is known in that run, are asked for once more."""
_LOOKS: Final = 10
_LOOK_SECONDS: Final = 0.1
"""How often, and after how long each, it is looked again whether a pod that has just begun has published something."""


class NodeSocket:
    """The server of one node's socket."""

    def __init__(
        self,
        state_dir: Path,
        published: PublishedPods,
        *,
        open_pods: OpenPods | None = None,
        unattended: UnattendedPods | None = None,
        untold: Callable[[str], Sequence[UntoldFailures]] = lambda _: (),
        running: Collection[RunningStep] = (),
        settle_journal: Callable[[], Awaitable[bool]] | None = None,
        refresh_report: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Answer from `published`, on the socket in `state_dir`; without `open_pods`, not which pods are open.

        `unattended` finds the pods that run without a workflow. They are answered for beside the open ones, marked.
        `untold` returns the failures of a pod's probes (by its UID) that its workflow does not know of yet. `running`
        has the steps that are under way at the time. `settle_journal` writes what the journal is still to be told, and
        `refresh_report` what the node is found to have now.
        """
        self._state_dir = state_dir
        self._published = published
        self._open_pods = open_pods
        self._unattended = unattended
        self._untold = untold
        self._running = running
        self._writes = {JOURNAL: settle_journal, REPORT: refresh_report}

    async def run(self) -> None:
        """Answer until cancelled. Raises OSError if the socket cannot be made."""
        server = await asyncio.start_unix_server(self._serve, sock=self._listen(), limit=LINE_LIMIT)
        async with server:
            await server.serve_forever()

    def _listen(self) -> socket.socket:
        """Return the bound socket, in place of one that an earlier worker has left: there is one worker per node."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            os.fchmod(listener.fileno(), 0o600)  # before it has a name, so that it never has another mode
            (self._state_dir / SOCKET_NAME).unlink(missing_ok=True)
            with socket_address(self._state_dir) as address:
                listener.bind(address)
        except BaseException:
            listener.close()
            raise
        return listener

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; close it if it sends something invalid, or nothing."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                line = await reader.readline()
            asked = json.loads(line)
            query, args = str(asked["query"]), list(asked["args"])
            await _write(writer, HEARD)
            if (write := self._writes.get(query)) is not None:
                async with asyncio.timeout(PATIENCE_SECONDS):  # a disk may hang, or the server
                    await write()
                await _write(writer, ALL_TOLD)
            recorded: list[WorkflowExecution] = []
            orphans: list[Unattended] = []
            if "open" in asked:
                workflows, recorded = await self._open(asked["open"])
                orphans = await self._without_workflow(asked["open"], {*workflows, *(each.id for each in recorded)})
            elif "pods" in asked:
                workflows = [pod_workflow_id(str(namespace), str(name)) for namespace, name in asked["pods"]]
            else:
                workflows = list(map(str, asked["workflows"]))
            for some in _parts(workflows):
                known = {each: run for each in some if (run := self._published.newest(each)) is not None}
                untold = {each: tuple(self._untold(run.published.uid)) for each, run in known.items()}
                steps = steps_of(self._running) if query == STEPS else {}
                lines = await asyncio.to_thread(_answers, known, query, args, untold, steps)
                await _write(writer, lines)
            for few in _parts(recorded):
                await _write(writer, await asyncio.to_thread(_as_recorded, few))
            for lone in orphans:
                run = self._published.newest(lone.workflow_id)
                await _write(writer, await asyncio.to_thread(_as_orphan, self._state_dir, lone, run, query, args))
            if "open" in asked:
                await _write(writer, ALL_TOLD)
        except OpenPodsUnknown:
            pass  # without its last line, the answer says so
        except (OSError, TimeoutError, ValueError, TypeError, KeyError) as error:
            log.debug("a reader of the node's socket is given up: %s", error)
        finally:
            writer.close()

    async def _open(self, asked: Mapping[str, Any]) -> tuple[list[str], list[WorkflowExecution]]:
        """Return the workflows of the open pods that are asked for, and those of which only the server knows something.

        There are such only if that suffices to whoever asks, and if this node has yet to come to many of its pods.
        Raises OpenPodsUnknown if the server does not say, or one of them is in a run that this node knows nothing of.
        """
        if self._open_pods is None:
            raise OpenPodsUnknown
        async with asyncio.timeout(ANSWER_SECONDS):
            executions: dict[str, WorkflowExecution] = {}
            if asked["names"]:
                runs = await self._open_pods.named(str(asked["namespace"]), list(map(str, asked["names"])))
            else:
                executions = await self._open_pods.listed(asked["namespace"])
                runs = {each: listed.run_id for each, listed in executions.items()}
            for _ in range(_LOOKS):
                unknown = [each for each, run_id in runs.items() if not self._knows(each, run_id)]
                if not unknown:
                    return list(runs), []
                if len(unknown) > _FEW:
                    recorded = [executions[each] for each in unknown if each in executions]
                    if asked.get("recorded") and len(recorded) == len(unknown) and self._open_pods.are_ours(recorded):
                        return [each for each in runs if each not in unknown], recorded
                    break
                still = await self._open_pods.still_open(unknown)
                runs = {each: run_id for each, run_id in runs.items() if each not in unknown} | still
                if not all(self._knows(each, run_id) for each, run_id in still.items()):
                    await asyncio.sleep(_LOOK_SECONDS)
        raise OpenPodsUnknown

    async def _without_workflow(self, asked: Mapping[str, Any], known: Collection[str]) -> list[Unattended]:
        """Return those of the pods that are asked for that run without a workflow. Raises OpenPodsUnknown."""
        if self._unattended is None:
            return []
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._unattended.among(asked["namespace"], list(map(str, asked["names"])), known)

    def _knows(self, workflow_id: str, run_id: str) -> bool:
        known = self._published.newest(workflow_id)
        return known is not None and known.run_id == run_id


async def _write(writer: asyncio.StreamWriter, lines: bytes) -> None:
    writer.write(lines)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await writer.drain()


def _parts(workflows: list[_Part]) -> Iterator[list[_Part]]:
    for at in range(0, len(workflows), _AT_ONCE):
        yield workflows[at : at + _AT_ONCE]


def _as_recorded(executions: Sequence[WorkflowExecution]) -> bytes:
    """Return a line for each workflow with what the server has recorded of its pod."""
    lines = (
        {
            "workflow": each.id,
            "run": each.run_id,
            "recorded": pod_to_wire(recorded_as(each)),
            "status": attribute(each, "PodStatus") or "",
            "restarts": attribute(each, "PodRestarts"),
        }
        for each in executions
    )
    return b"".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for each in lines)


def _as_orphan(state_dir: Path, lone: Unattended, run: PublishedRun | None, query: str, args: list[Any]) -> bytes:
    """Return a line for a pod without a workflow: what that told last, marked. Nothing is decided for it any more."""
    listing = lone.listing
    if run is not None and run.published.uid != listing.uid:
        run = None

    def told(part: str, otherwise: Any) -> Any:
        return run.published.answer(part, *(args if part == query else ())) if run is not None else otherwise

    def pod() -> dict[str, Any]:
        bare = {"metadata": {"name": listing.name, "namespace": listing.namespace, "uid": listing.uid}}
        return marked(told("pod", recorded_pod(state_dir, lone.workflow_id, listing.uid) or bare), WHY)

    def answer() -> Any:
        match query:
            case "pod":
                return pod()
            case "plan":
                return {**told("plan", {}), "steps": [], "holds": []}
            case _ if query == DESCRIBED:
                return {"pod": pod(), "plan": {"holds": []}, "events": told("events", []), "under_way": [], "run": ""}
            case _:
                return told(query, [])

    said = {"workflow": lone.workflow_id, "run": run.run_id if run is not None else "", "answer": answer()}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _answers(known: dict[str, PublishedRun], query: str, args: list[Any], untold: _Untold, steps: _Steps) -> bytes:
    """Return a line for each workflow that is known."""

    def answer(workflow_id: str, run: PublishedRun) -> Any:
        if query == STEPS:
            return [each for each in steps.get(workflow_id, ()) if each["uid"] == run.published.uid]
        if query == DESCRIBED:
            parts = ("pod", "plan", "events", "under_way")
            said = {each: run.published.answer(each) for each in parts}
            return said | {"run": run.run_id, "events": with_untold(said["events"], untold[workflow_id])}
        said = run.published.answer(query, *args)
        return with_untold(said, untold[workflow_id]) if query == "events" else said

    return b"".join(_line(workflow_id, run, partial(answer, workflow_id, run)) for workflow_id, run in known.items())


def _line(workflow_id: str, run: PublishedRun, answer: Callable[[], Any]) -> bytes:
    said: dict[str, Any] = {"workflow": workflow_id, "run": run.run_id}
    try:
        said["answer"] = answer()
    except Exception as error:  # noqa: BLE001  # as with a query, the client gets any error
        said["error"] = f"{type(error).__name__}: {error}"
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
