"""The two sides of the comparison: a kubelet and a node of ours, each with its own recording CRI proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from temporalio.client import Client
from temporalio.service import RPCError

from qa.differential.kubelet import Kubelet
from qa.differential.recording import Recording
from syncpod.api.client import reports
from syncpod.messages.identity import pod_workflow_id
from syncpod.messages.node import NodeView, node_workflow_id
from syncpod.temporal.plugin import DATA_CONVERTER
from syncpod.temporal.queries import AskAgain
from tests.runtimes.containerd import Containerd
from tests.runtimes.leftovers import unmount_below
from tests.runtimes.temporal import DevServer
from tests.worker.node_process import NodeProcess

_TRIES: Final = 20
NODE: Final = "differ"
"""The name of both nodes."""


@dataclass(frozen=True)
class Event:
    """One event of a pod, with the number of its repetitions."""

    type: str
    reason: str
    container: str
    message: str
    count: int = 1


@dataclass
class Side:
    """One side: its directories, its runtime with the recording proxy, and the source of its answers."""

    name: str
    directory: Path
    runtime: Containerd
    recording: Recording
    source: Source

    @property
    def shared(self) -> Path:
        """The directory below which each pod has the directory that replaces `@dir@`."""
        return self.directory / "shared"

    @property
    def roots(self) -> tuple[Path, ...]:
        """The directories with the files that it mounts into containers."""
        return self.source.roots

    def write(self, file: str, manifest: dict[str, Any]) -> None:
        """Let this side run a pod: write its file beside the manifest directory, and rename it into the directory."""
        own = self.shared / manifest["metadata"]["name"]
        own.mkdir(mode=0o777, parents=True, exist_ok=True)
        own.chmod(0o777)
        beside = self.directory / f".{file}"
        beside.write_text(json.dumps(manifest).replace("@dir@", str(own)))
        beside.rename(self.source.manifests / file)

    def remove(self, file: str) -> None:
        """Have this side end the pod of this file."""
        (self.source.manifests / file).unlink(missing_ok=True)

    def logs(self, pod: dict[str, Any]) -> dict[str, str]:
        """The log of the newest instance of each container, by container."""
        meta = pod["metadata"]
        return logs_below(self.source.pod_logs / f"{meta['namespace']}_{meta['name']}_{meta['uid']}")


class Source(Protocol):
    """The common interface to a kubelet and a node."""

    manifests: Path
    pod_logs: Path
    roots: tuple[Path, ...]

    async def pods(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of the named pods that exist, by name, with their status."""
        ...

    async def events(self, name: str) -> list[Event]:
        """The events of a pod."""
        ...

    async def last_events(self, name: str) -> list[Event]:
        """The events of a pod that has ended."""
        ...

    async def refusals(self) -> dict[str, str]:
        """The reasons why files were refused, by file name."""
        ...


class KubeletSource:
    """A kubelet's answers, from its read-only port and its log."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self.manifests = kubelet.manifests
        self.pod_logs = kubelet.pod_logs
        self.roots: tuple[Path, ...] = (kubelet.root,)

    async def pods(self, names: Collection[str]) -> dict[str, Any]:
        """The subset of these pods that this side has."""
        return {name: pod for name, pod in (await self._kubelet.pods()).items() if name in names}

    async def events(self, name: str) -> list[Event]:
        """The events of a pod, from its log: without an API server it sends them nowhere."""
        self._kubelet.read_log()
        counted: dict[Event, int] = {}
        for entry in self._kubelet.events.get(name, ()):
            container = entry.get("fieldPath", "").partition("{")[2].rstrip("}")
            event = Event(entry["type"], entry["reason"], container, entry.get("message", ""))
            counted[event] = counted.get(event, 0) + 1
        return [Event(each.type, each.reason, each.container, each.message, n) for each, n in counted.items()]

    async def last_events(self, name: str) -> list[Event]:
        """The events of a pod that has ended."""
        return await self.events(name)

    async def refusals(self) -> dict[str, str]:
        """Why files were refused."""
        self._kubelet.read_log()
        return self._kubelet.refused


class NodeSource:
    """A node's answers, from its worker's socket and its workflows."""

    def __init__(self, directory: Path, client: Client) -> None:
        self._state = directory / "state"
        self._client = client
        self.manifests = directory / "manifests"
        self.pod_logs = directory / "logs"
        self.roots: tuple[Path, ...] = (directory / "state", directory / "memory")

    async def pods(self, names: Collection[str]) -> dict[str, Any]:
        """The subset of these pods that this side has."""
        told = await asyncio.to_thread(reports, self._state, "default", list(names), "pod", at_once=True)
        return {one["metadata"]["name"]: one["pod"] for one in told or ()}

    async def events(self, name: str) -> list[Event]:
        """The events of a pod."""
        for _ in range(_TRIES):
            told = await asyncio.to_thread(reports, self._state, "default", [name], "events", at_once=True)
            if told:
                return [_event(each) for each in told[0]["events"]]
            await asyncio.sleep(1)  # a busy node may not have answered in time
        return []

    async def last_events(self, name: str) -> list[Event]:
        """The events of a pod that has ended, from its workflow, since its node may have dropped the pod."""
        handle = self._client.get_workflow_handle(pod_workflow_id("default", name))
        answer: list[dict[str, Any]] = await handle.query("events", rpc_timeout=timedelta(seconds=60))
        return [_event(each) for each in answer]

    async def refusals(self) -> dict[str, str]:
        """Why files were refused, from the node's own events."""
        handle = self._client.get_workflow_handle(node_workflow_id(NODE))
        try:
            view = NodeView.model_validate(await handle.query("node"))
        except RPCError:
            return {}
        said = [each.message for each in view.events if each.reason == "FailedManifest"]
        named = ((word.strip(":,;\"'"), message) for message in said for word in message.split())
        return {Path(word).name: message for word, message in named if word.endswith(".json")}


def _event(said: dict[str, Any]) -> Event:
    return Event(said["type"], said["reason"], said.get("container", ""), said["message"], said.get("count", 1))


@dataclass
class Stage:
    """Both sides, running."""

    kubelet: Side
    ours: Side
    versions: dict[str, str] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def stage(version: str) -> AsyncIterator[Stage]:
    """Run a kubelet and a node during the block, each with its own containerd. Raises `Missing`."""
    async with contextlib.AsyncExitStack() as stack:
        top = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="syncpod-differ-", ignore_cleanup_errors=True))
        )
        await asyncio.to_thread(top.chmod, 0o755)
        runtimes = []
        for _ in range(2):
            runtime = await asyncio.to_thread(Containerd.launch, version, gates=False)
            stack.push_async_callback(asyncio.to_thread, runtime.close)
            runtimes.append(runtime)
        sides = [_laid_out(top / name) for name in ("kubelet", "ours")]
        recordings = [
            await stack.enter_async_context(Recording(place / "cri.sock", runtime.endpoint))
            for place, runtime in zip(sides, runtimes, strict=True)
        ]
        kubelet = Kubelet(
            sides[0] / "node", endpoint=recordings[0].endpoint, node=NODE, cgroup_root=runtimes[0].cgroup_parent
        )
        stack.callback(kubelet.close)
        server = await asyncio.to_thread(DevServer.launch)
        stack.push_async_callback(asyncio.to_thread, server.close)
        client = await Client.connect(server.address, data_converter=DATA_CONVERTER, interceptors=[AskAgain()])
        worker = _worker(sides[1] / "node", runtimes[1], recordings[1], server)
        stack.callback(unmount_below, sides[1])
        stack.callback(worker.close)
        await kubelet.ready()
        await worker.ready()
        yield Stage(
            Side("kubelet", sides[0], runtimes[0], recordings[0], KubeletSource(kubelet)),
            Side("syncpod", sides[1], runtimes[1], recordings[1], NodeSource(sides[1] / "node", client)),
        )


def _worker(directory: Path, runtime: Containerd, recording: Recording, server: DevServer) -> NodeProcess:
    (directory / "manifests").mkdir(parents=True)
    arguments = ("--cgroup-parent", runtime.cgroup_parent, "--manifests", str(directory / "manifests"))
    return NodeProcess(
        directory,
        *arguments,
        runtime=recording.endpoint,
        temporal=server.address,
        node=NODE,
        SYNCPOD_CAPACITY="pods=500",
    )


def _laid_out(place: Path) -> Path:
    (place / "shared").mkdir(parents=True)
    return place


def logs_below(directory: Path) -> dict[str, str]:
    """The newest log of each container below a pod's log directory, without CRI's prefix of each line."""
    said = {}
    for container in directory.iterdir() if directory.is_dir() else ():
        numbered = sorted((int(path.stem), path) for path in container.glob("*.log") if path.stem.isdigit())
        if numbered:
            lines = numbered[-1][1].read_text(errors="replace").splitlines()
            said[container.name] = "\n".join(line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3)
    return said
