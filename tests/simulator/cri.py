"""The runtime port (`CriRuntime`) over a scripted runtime: calls take virtual time, and faults are injected.

A call is sent when it is made, and takes effect at its end, even if nobody waits for it any more: a worker's death does
not cancel the call in the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from syncpod.cri.errors import CriError, NotFound, RuntimeFailure, Unavailable, Unimplemented
from syncpod.cri.keyring import Credential
from syncpod.cri.port import (
    CgroupDriver,
    ContainerAnswer,
    ContainerConfig,
    ContainerEvent,
    ContainerStats,
    ContainerSummary,
    ExecResult,
    ImageFsInfo,
    ImageStatus,
    Ingest,
    LinuxResources,
    MemoryUsage,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    SandboxStats,
    SandboxStatus,
    SandboxSummary,
)
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.translation import names
from tests.simulator.clock import Clock
from tests.simulator.loop import OWNER, VirtualLoop
from tests.simulator.runtime import FOREVER, SHORT, Container, Runtime, Sandbox, Stop

_T = TypeVar("_T")
Begun = tuple[float, Callable[[], _T]]
"""A call's duration, and the function with its effect at the end."""

PULL_SECONDS = 1.0
HOOK_SECONDS = 0.3
"""The duration of a hook without faults."""
_NO_STATS = MemoryUsage(measured_at_ns=0, usage_bytes=1 << 20, working_set_bytes=1 << 20)


@dataclass
class Ill:
    """A fault of an attempt of a step."""

    kind: str
    seconds: float = 0.0
    used: bool = False


@dataclass(eq=False)
class Caller:
    """The attempt of a step on whose behalf calls are made."""

    name: str
    """The step's name."""
    kind: str = ""
    """The kind of the container that it starts."""
    ill: Ill | None = None
    stalls: Callable[[float], None] = lambda _: None
    """Called to stall the attempt for this many seconds."""

    def takes(self, *kinds: str) -> Ill | None:
        """Return its fault if that is one of these; only at the first call."""
        if self.ill is None or self.ill.used or self.ill.kind not in kinds:
            return None
        self.ill.used = True
        return self.ill


NOBODY = Caller("the node")


@dataclass
class ScriptedCri:
    """The runtime, with the interface that a worker calls."""

    runtime: Runtime
    clock: Clock
    failing_hooks: int = 0
    """The number of the next postStart hooks that fail."""
    hanging_hooks: list[float] = field(default_factory=list)
    """The durations of the next preStop hooks in seconds."""
    pull_seconds: float = PULL_SECONDS
    named: RuntimeVersion = field(default_factory=lambda: RuntimeVersion("simulated", "1"))
    _stops: list[Stop] = field(default_factory=list)

    def abandon(self) -> None:
        """Abandon the pending stops: their client is dead, and no SIGKILL follows."""
        for stop in self._stops:
            stop.abandoned = True
        self._stops.clear()

    # --- how a call goes ----------------------------------------------------------------------------------------------

    async def _call(self, begin: Callable[[], Begun[_T]], *, makes: bool = False) -> _T:
        """Send a call, and return its result. `makes`: the call makes something, so faults of calls apply to it."""
        caller = _caller()
        if (ill := caller.takes("stalls")) is not None:
            caller.stalls(ill.seconds)
            await asyncio.sleep(0)
        if caller.ill is not None and caller.ill.kind == "unreachable":
            raise _refused()
        ill = caller.takes("fails", "lies", "hangs") if makes else None
        if ill is not None and ill.kind == "fails":
            await asyncio.sleep(0.01)
            raise RuntimeFailure("call", "UNKNOWN", "the runtime will not")
        try:
            seconds, effect = begin()
        except CriError:
            await asyncio.sleep(SHORT)
            raise
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def over() -> None:
            try:
                value = effect()
            except CriError as error:
                if not answer.done():
                    answer.set_exception(error)
                return
            if answer.done():
                return
            if ill is not None and ill.kind == "lies":
                answer.set_exception(RuntimeFailure("call", "UNKNOWN", "it failed, says the runtime"))
            else:
                answer.set_result(value)

        self.clock.after(seconds + (ill.seconds if ill is not None and ill.kind == "hangs" else 0.0), over)
        return await answer

    async def _ask(self, look: Callable[[], _T]) -> _T:
        """Read something a short time after the request."""

        def begin() -> Begun[_T]:
            self.runtime.answer()
            return SHORT, look

        return await self._call(begin)

    # --- the runtime itself -------------------------------------------------------------------------------------------

    async def version(self) -> RuntimeVersion:
        """Return the runtime's name and version."""
        return await self._ask(lambda: self.named)

    async def status(self, *, verbose: bool = False) -> RuntimeStatus:
        """Return whether the network is ready."""
        return await self._ask(
            lambda: RuntimeStatus(
                runtime_ready=True,
                network_ready=self.runtime.network,
                runtime_message="",
                network_message="" if self.runtime.network else "NetworkPluginNotReady: not yet",
                supplemental_groups_policy=True,
                user_namespaces_host_network=False,
                mount_options=False,
                runtime_handlers=(),
                info={},
            )
        )

    async def runtime_config(self, *, default: CgroupDriver = "cgroupfs") -> CgroupDriver:
        """Return the default configuration."""
        return default

    async def update_runtime_config(self, *, pod_cidr: str) -> None:
        """Accept the configuration."""

    # --- sandboxes ----------------------------------------------------------------------------------------------------

    async def run_pod_sandbox(self, config: SandboxConfig, *, runtime_handler: str = "") -> str:
        """Make a sandbox; it is removed again if its client is dead at the call's end."""
        loop = asyncio.get_running_loop()
        asked = Sandbox(
            id="",
            uid=config.metadata.uid,
            attempt=config.metadata.attempt,
            incarnation=config.annotations[names.INCARNATION_ANNOTATION],
            name=config.metadata.name,
            namespace=config.metadata.namespace,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
        )

        def client_there() -> bool:
            return not isinstance(loop, VirtualLoop) or loop.alive

        made = await self._call(lambda: self.runtime.run_sandbox(asked, client_there), makes=True)
        return made.id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox at once."""
        await self._call(lambda: self.runtime.stop_sandbox(sandbox_id))

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox and its containers."""
        await self._call(lambda: self.runtime.remove_sandbox(sandbox_id))

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> SandboxStatus:
        """Return one sandbox."""

        def look() -> SandboxStatus:
            found = self.runtime.sandboxes.get(sandbox_id)
            if found is None:
                raise NotFound("podsandbox_status", "NOT_FOUND", f"no sandbox {sandbox_id}")
            listed = _sandbox(found)
            return SandboxStatus(
                id=listed.id,
                attempt=listed.attempt,
                uid=listed.uid,
                name=listed.name,
                namespace=listed.namespace,
                state=listed.state,
                created_at=listed.created_at,
                network_mode="POD",
                ip=f"10.0.0.{found.attempt % 250 + 1}" if found.ready else "",
                additional_ips=(),
                labels=listed.labels,
                annotations=listed.annotations,
                pid=0,
            )

        return await self._ask(look)

    async def list_pod_sandboxes(
        self, *, labels: Mapping[str, str] | None = None, id: str = ""
    ) -> tuple[SandboxSummary, ...]:
        """List sandboxes."""

        def look() -> tuple[SandboxSummary, ...]:
            listed = (each for each in self.runtime.sandboxes.values() if _is_meant(each, labels, id))
            return tuple(_sandbox(each) for each in listed)

        return await self._ask(look)

    # --- containers ---------------------------------------------------------------------------------------------------

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        """Make a container."""
        asked = Container(
            id="",
            uid=config.labels[names.POD_UID_LABEL],
            name=config.metadata.name,
            restart=config.metadata.attempt,
            sandbox=sandbox_id,
            image=config.image.user_specified_image,
            incarnation=config.annotations[names.INCARNATION_ANNOTATION],
            created=0.0,
            kind=_caller().kind,
            life=FOREVER,
            labels=dict(config.labels),
            annotations=dict(config.annotations),
            log_path=f"{sandbox_config.log_directory}/{config.log_path}",
        )
        made = await self._call(lambda: self.runtime.create(asked), makes=True)
        return made.id

    async def start_container(self, container_id: str) -> None:
        """Start a container."""
        await self._call(lambda: self.runtime.start(container_id), makes=True)

    async def stop_container(self, container_id: str, *, timeout_seconds: int) -> None:
        """Send SIGTERM, later SIGKILL, and return when it has ended."""
        caller = _caller()
        if caller.ill is not None and caller.ill.kind == "unreachable":
            raise _refused()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def over(error: CriError | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        stop = self.runtime.stop(container_id, timeout_seconds, caller.name, over)
        self._stops.append(stop)
        try:
            await answer
        finally:
            if stop in self._stops:
                self._stops.remove(stop)

    async def remove_container(self, container_id: str) -> None:
        """Remove a container."""
        await self._call(lambda: self.runtime.remove(container_id))

    async def discard_task(self, container_id: str) -> None:
        """Raise: only containerd has that call."""
        raise Unimplemented("discard_task", "UNIMPLEMENTED", "no tasks here")

    async def list_containers(
        self, *, labels: Mapping[str, str] | None = None, id: str = "", sandbox_id: str = ""
    ) -> tuple[ContainerSummary, ...]:
        """List containers."""

        def look() -> tuple[ContainerSummary, ...]:
            listed = (each for each in self.runtime.containers.values() if _is_meant(each, labels, id))
            return tuple(_container(each) for each in listed if sandbox_id in ("", each.sandbox))

        return await self._ask(look)

    async def container_status(self, container_id: str, *, verbose: bool = False) -> ContainerAnswer:
        """Return one container."""

        def look() -> ContainerAnswer:
            found = self.runtime.containers.get(container_id)
            if found is None:
                raise NotFound("container_status", "NOT_FOUND", f"no container {container_id}")
            return _status(found)

        return await self._ask(look)

    async def exec_sync(self, container_id: str, command: tuple[str, ...], *, timeout_seconds: int) -> ExecResult:
        """Run a hook, with scripted faults."""
        starts = _caller().name.startswith("start_")
        seconds = HOOK_SECONDS if starts or not self.hanging_hooks else self.hanging_hooks.pop(0)
        await asyncio.sleep(seconds)
        if not starts or not self.failing_hooks:
            return ExecResult(b"", b"", 0)
        self.failing_hooks -= 1
        return ExecResult(b"", b"", 1)

    async def exec(
        self, container_id: str, command: tuple[str, ...], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Not supported."""
        raise _unimplemented("exec")

    async def attach(self, container_id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Not supported."""
        raise _unimplemented("attach")

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        """Not supported."""
        raise _unimplemented("port_forward")

    async def reopen_container_log(self, container_id: str) -> None:
        """Not supported."""
        raise _unimplemented("reopen_container_log")

    async def container_events(self) -> AsyncGenerator[ContainerEvent, None]:
        """Not supported."""
        raise _unimplemented("container_events")
        yield  # which makes it a generator

    # --- resources ----------------------------------------------------------------------------------------------------

    async def list_sandbox_stats(
        self, *, labels: Mapping[str, str], timeout_seconds: float
    ) -> tuple[SandboxStats, ...]:
        """Measure no sandbox."""
        raise _unimplemented("list_sandbox_stats")

    async def list_container_stats(self, *, sandbox_id: str, timeout_seconds: float) -> tuple[ContainerStats, ...]:
        """Return the same usage for each running container of a sandbox."""

        def look() -> tuple[ContainerStats, ...]:
            runs = (c for c in self.runtime.containers.values() if c.sandbox == sandbox_id and c.state == "running")
            return tuple(ContainerStats(each.id, each.name, None, memory=_NO_STATS) for each in runs)

        return await self._ask(look)

    async def update_pod_sandbox_resources(
        self, sandbox_id: str, *, overhead: LinuxResources, resources: LinuxResources
    ) -> None:
        """Not supported, as in most runtimes."""
        raise _unimplemented("update_pod_sandbox_resources")

    async def update_container_resources(self, container_id: str, resources: LinuxResources) -> None:
        """Accept a container's limits, without effect."""

        def begin() -> Begun[None]:
            self.runtime.answer()
            if container_id not in self.runtime.containers:
                raise NotFound("update_container_resources", "NOT_FOUND", f"no container {container_id}")
            return SHORT, lambda: None

        await self._call(begin, makes=True)

    # --- images -------------------------------------------------------------------------------------------------------

    async def image_status(self, image: str) -> ImageStatus | None:
        """Return an image, or None if it does not exist."""
        return await self._ask(lambda: _image(image) if image in self.runtime.images else None)

    async def pull_image(
        self, image: str, *, credential: Credential | None = None, sandbox_config: SandboxConfig | None = None
    ) -> str:
        """Pull an image; if the pull is cancelled, nothing of the image is kept."""
        await asyncio.sleep(self.pull_seconds)

        def begin() -> Begun[str]:
            self.runtime.answer()

            def effect() -> str:
                self.runtime.images.add(image)
                return image

            return 0.01, effect

        return await self._call(begin, makes=True)

    async def ingests(self) -> tuple[Ingest, ...] | None:
        """Report no downloads."""
        return None

    async def list_images(self) -> tuple[ImageStatus, ...]:
        """List the images."""
        return await self._ask(lambda: tuple(_image(each) for each in sorted(self.runtime.images)))

    async def remove_image(self, image: str) -> None:
        """Remove an image."""
        await self._ask(lambda: self.runtime.images.discard(image))

    async def image_fs_info(self) -> ImageFsInfo:
        """Report no disk usage."""
        return await self._ask(lambda: ImageFsInfo(()))


def _caller() -> Caller:
    owner = OWNER.get()
    return owner if isinstance(owner, Caller) else NOBODY


def _refused() -> Unavailable:
    return Unavailable("call", "UNAVAILABLE", "connection refused")


def _unimplemented(call: str) -> Unimplemented:
    return Unimplemented(call, "UNIMPLEMENTED", "the simulated runtime does not have that")


def _is_meant(thing: Sandbox | Container, labels: Mapping[str, str] | None, id_: str) -> bool:
    return id_ in ("", thing.id) and all(thing.labels.get(label) == value for label, value in (labels or {}).items())


def _sandbox(sandbox: Sandbox) -> SandboxSummary:
    return SandboxSummary(
        id=sandbox.id,
        attempt=sandbox.attempt,
        uid=sandbox.uid,
        name=sandbox.name,
        namespace=sandbox.namespace,
        state="SANDBOX_READY" if sandbox.ready else "SANDBOX_NOTREADY",
        created_at=sandbox.dated,
        labels=sandbox.labels,
        annotations=sandbox.annotations,
        runtime_handler="",
    )


def _container(container: Container) -> ContainerSummary:
    return ContainerSummary(
        id=container.id,
        sandbox_id=container.sandbox,
        name=container.name,
        attempt=container.restart,
        state=container.state,
        created_at=container.dated.get("created"),
        image=container.image,
        image_ref=container.image,
        labels=container.labels,
        annotations=container.annotations,
    )


def _status(container: Container) -> ContainerAnswer:
    return ContainerAnswer(
        ObservedContainer(
            id=container.id,
            name=container.name,
            restart_count=container.restart,
            state=container.state,
            created_at=container.dated.get("created"),
            started_at=container.dated.get("started"),
            finished_at=container.dated.get("finished"),
            exit_code=container.code,
            reason=container.reason,
            message=container.message,
            image=container.image,
            image_ref=container.image,
            log_path=container.log_path,
        ),
        labels=container.labels,
        annotations=container.annotations,
        mounts=(),
    )


def _image(name: str) -> ImageStatus:
    return ImageStatus(name, (name,), (), 1, None, "", pinned=False)
