"""Short scenes of raw CRI calls with the runtime's answers, which are the same on each runtime.

A scene returns the data on which a caller's decisions depend: codes, states, exit codes, reasons, and the parts of
messages that this project reads. Names and ids are left out, since they differ each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import uuid
from collections.abc import Awaitable
from typing import Any

import grpc.aio

from protos.cri.v1 import api_pb2 as cri
from tests.runtimes.bare import BareCri, BarePod
from tests.runtimes.images import BUSYBOX
from tests.runtimes.runtime import Runtime

RUNS = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 600 & wait $!; done")
DEAF = ("sh", "-c", "trap 'touch /tmp/told' TERM; while :; do sleep 600 & wait $!; done")
"""A command that records SIGTERM, and continues."""
ABSENT = "0" * 64
PATIENCE = 60.0


class Stage:
    """A runtime with one sandbox, in which a scene makes containers."""

    def __init__(self, bare: BareCri, runtime: Runtime) -> None:
        self.runtime = runtime
        self.bare = bare
        self.cri = bare.runtime
        self.sandbox = bare.sandbox_config(f"scene-{uuid.uuid4().hex[:8]}")
        self.sandbox_id = ""

    async def run(self) -> None:
        self.sandbox_id = (await self.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=self.sandbox))).pod_sandbox_id

    async def clear(self) -> None:
        if self.sandbox_id:
            await self.bare.remove_pod(BarePod(self.sandbox_id, ""))

    def config(self, *command: str, name: str = "main", image: str = BUSYBOX) -> cri.ContainerConfig:
        options = self.sandbox.linux.security_context.namespace_options
        security = cri.LinuxContainerSecurityContext(namespace_options=options)
        return cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=image, user_specified_image=image),
            command=command,
            linux=cri.LinuxContainerConfig(security_context=security),
        )

    async def create(self, *command: str, name: str = "main", image: str = BUSYBOX) -> str:
        request = cri.CreateContainerRequest(
            pod_sandbox_id=self.sandbox_id,
            config=self.config(*command, name=name, image=image),
            sandbox_config=self.sandbox,
        )
        return (await self.cri.CreateContainer(request)).container_id

    async def start(self, container: str) -> None:
        await self.cri.StartContainer(cri.StartContainerRequest(container_id=container))

    async def started(self, *command: str, name: str = "main") -> str:
        container = await self.create(*command, name=name)
        await self.start(container)
        return container

    async def stop(self, container: str, grace: int) -> None:
        await self.cri.StopContainer(cri.StopContainerRequest(container_id=container, timeout=grace))

    async def remove(self, container: str) -> None:
        await self.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))

    async def stop_sandbox(self) -> None:
        await self.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=self.sandbox_id))

    async def status(self, container: str) -> cri.ContainerStatus:
        return (await self.cri.ContainerStatus(cri.ContainerStatusRequest(container_id=container))).status

    async def state(self, container: str) -> str:
        return cri.ContainerState.Name((await self.status(container)).state)

    async def ended(self, container: str) -> tuple[Any, ...]:
        """Wait until a container has exited; return its code, its reason, and whether message and times are set."""
        async with asyncio.timeout(PATIENCE):
            while (status := await self.status(container)).state != cri.CONTAINER_EXITED:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        times = (status.created_at > 0, status.started_at > 0, status.finished_at > 0)
        return status.exit_code, status.reason, bool(status.message), times

    async def exec(self, container: str, *command: str, timeout: int = 10) -> tuple[int, bytes, bytes]:
        request = cri.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout)
        done = await self.cri.ExecSync(request)
        return done.exit_code, done.stdout, done.stderr


async def refused(call: Awaitable[Any], words: str = "") -> tuple[str, ...]:
    """The result of a call: `OK`, or the code and the part of the message that matches `words`."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        said = error.details() or ""
        found = re.search(words, said)
        return error.code().name, found[0] if found else f"{words!r} not in {said!r}"
    return ("OK",)


# --- names ------------------------------------------------------------------------------------------------------------


async def the_same_sandbox_again(stage: Stage) -> Any:
    call = stage.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=stage.sandbox))
    return await refused(call, f'is reserved for "(?={stage.sandbox_id}")')


async def the_same_container_again(stage: Stage) -> Any:
    first = await stage.create(*RUNS)
    return await refused(stage.create(*RUNS), f'is reserved for "(?={first}")')


async def a_name_is_free_once_its_container_is_removed(stage: Stage) -> Any:
    first = await stage.create(*RUNS)
    await stage.remove(first)
    return await stage.create(*RUNS) != first


async def a_container_of_no_sandbox(stage: Stage) -> Any:
    request = cri.CreateContainerRequest(
        pod_sandbox_id=ABSENT, config=stage.config(*RUNS), sandbox_config=stage.sandbox
    )
    return await refused(stage.cri.CreateContainer(request))


async def a_container_of_an_image_that_is_not_there(stage: Stage) -> Any:
    return await refused(stage.create(*RUNS, image="docker.io/library/never-pulled:1"))


async def a_container_in_a_stopped_sandbox(stage: Stage) -> Any:
    await stage.stop_sandbox()
    return await refused(stage.create(*RUNS))


# --- starting ---------------------------------------------------------------------------------------------------------


async def a_start_of_what_runs(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    return await refused(stage.start(container), "is in CONTAINER_[A-Z]+ state")


async def a_start_of_what_has_exited(stage: Stage) -> Any:
    container = await stage.started("true")
    await stage.ended(container)
    return await refused(stage.start(container), "is in CONTAINER_[A-Z]+ state")


async def a_start_of_what_is_not_there(stage: Stage) -> Any:
    return await refused(stage.start(ABSENT))


async def a_start_of_a_program_that_is_not_there(stage: Stage) -> Any:
    container = await stage.create("/no/such/program")
    call = await refused(stage.start(container), "no such file or directory")
    return call, await stage.ended(container)


async def a_start_of_a_name_that_is_not_on_the_path(stage: Stage) -> Any:
    container = await stage.create("no-such-program")
    call = await refused(stage.start(container), r'exec: "no-such-program": executable file not found in \$PATH')
    return call, await stage.ended(container)


async def a_start_that_its_caller_gives_up(stage: Stage) -> Any:
    container = await stage.create(*RUNS)
    with stage.runtime.gates.hold("runc-create") as gate:
        start = asyncio.ensure_future(stage.start(container))
        await gate.reached()
        again = await refused(stage.start(container), "already in starting state")
        stop = await refused(stage.stop(container, 0))
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
    return again, stop, await stage.ended(container)


# --- exits ------------------------------------------------------------------------------------------------------------


async def an_exit_with_0(stage: Stage) -> Any:
    return await stage.ended(await stage.started("true"))


async def an_exit_with_3(stage: Stage) -> Any:
    return await stage.ended(await stage.started("sh", "-c", "exit 3"))


async def an_end_by_a_signal(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    status = await stage.cri.ContainerStatus(cri.ContainerStatusRequest(container_id=container, verbose=True))
    os.kill(json.loads(status.info["info"])["pid"], signal.SIGKILL)
    return await stage.ended(container)


# --- stopping and removing --------------------------------------------------------------------------------------------


async def running(stage: Stage, *command: str, name: str = "main") -> str:
    """Start a container, and wait until it has set its trap."""
    script = f"{command[-1].split(';')[0]}; touch /tmp/ready; {command[-1]}"
    container = await stage.started("sh", "-c", script, name=name)
    await until_there(stage, container, "/tmp/ready")
    return container


async def until_there(stage: Stage, container: str, file: str) -> None:
    """Wait until a container has made a file."""
    async with asyncio.timeout(PATIENCE):
        while (await stage.exec(container, "test", "-e", file))[0]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def a_stop_within_the_grace(stage: Stage) -> Any:
    container = await running(stage, *RUNS)
    return await refused(stage.stop(container, 30)), await stage.ended(container)


async def a_stop_that_needs_a_kill(stage: Stage) -> Any:
    container = await running(stage, *DEAF)
    return await refused(stage.stop(container, 1)), await stage.ended(container)


async def a_second_stop_with_a_shorter_grace(stage: Stage) -> Any:
    container = await running(stage, *DEAF)
    first = asyncio.ensure_future(refused(stage.stop(container, 3600)))
    await until_there(stage, container, "/tmp/told")
    second = await refused(stage.stop(container, 0))
    async with asyncio.timeout(PATIENCE):
        answer = await first
    return second, answer, await stage.ended(container)


async def a_stop_that_its_caller_gives_up(stage: Stage) -> Any:
    container = await running(stage, *DEAF)
    stop = asyncio.ensure_future(stage.stop(container, 1))
    await until_there(stage, container, "/tmp/told")
    stop.cancel()
    other = await running(stage, *DEAF, name="other")
    await stage.stop(other, 1)  # it is killed after its grace, which began later than that of the abandoned stop
    between = await stage.state(container)
    return between, await refused(stage.stop(container, 0)), await stage.ended(container)


async def a_stop_of_what_was_never_started(stage: Stage) -> Any:
    container = await stage.create(*RUNS)
    stopped = await refused(stage.stop(container, 0))
    between = await stage.state(container)
    await stage.start(container)
    return stopped, between, await stage.state(container)


async def a_stop_of_what_has_ended(stage: Stage) -> Any:
    container = await stage.started("true")
    await stage.ended(container)
    return await refused(stage.stop(container, 0)), await stage.ended(container)


async def stops_and_removals_of_what_is_not_there(stage: Stage) -> Any:
    return (
        await refused(stage.stop(ABSENT, 0)),
        await refused(stage.remove(ABSENT)),
        await refused(stage.cri.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=ABSENT))),
        await refused(stage.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=ABSENT))),
        await refused(stage.bare.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image="none:1")))),
    )


async def questions_about_what_is_not_there(stage: Stage) -> Any:
    image = cri.ImageStatusRequest(image=cri.ImageSpec(image="docker.io/library/never-pulled:1"))
    answer = await stage.bare.images.ImageStatus(image)
    return (
        await refused(stage.status(ABSENT)),
        await refused(stage.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=ABSENT))),
        await refused(stage.exec(ABSENT, "true")),
        await refused(stage.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=ABSENT))),
        await refused(stage.cri.ContainerStats(cri.ContainerStatsRequest(container_id=ABSENT))),
        await refused(stage.cri.UpdateContainerResources(cri.UpdateContainerResourcesRequest(container_id=ABSENT))),
        answer.HasField("image"),
    )


async def a_removal_of_what_runs(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    return await refused(stage.remove(container)), await refused(stage.status(container))


async def a_stopped_sandbox(stage: Stage) -> Any:
    container, created = await stage.started(*RUNS), await stage.create(*RUNS, name="created")
    await stage.stop_sandbox()
    status = await stage.cri.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=stage.sandbox_id))
    return (
        cri.PodSandboxState.Name(status.status.state),
        await stage.ended(container),
        await stage.state(created),
        await refused(stage.stop_sandbox()),
        await refused(stage.start(created)),
        await refused(stage.cri.RunPodSandbox(cri.RunPodSandboxRequest(config=stage.sandbox)), "is reserved for"),
    )


async def a_removal_of_a_sandbox_that_is_ready(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    removed = await refused(stage.cri.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=stage.sandbox_id)))
    listed = await stage.cri.ListContainers(
        cri.ListContainersRequest(filter=cri.ContainerFilter(pod_sandbox_id=stage.sandbox_id))
    )
    return removed, await refused(stage.status(container)), len(listed.containers)


# --- commands in containers -------------------------------------------------------------------------------------------


async def a_command_in_a_container(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    return await stage.exec(container, "sh", "-c", "echo out; echo err >&2; exit 7")


async def a_command_that_takes_too_long(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    return await refused(stage.exec(container, "sleep", "100", timeout=1))


async def a_command_that_is_not_there(stage: Stage) -> Any:
    container = await stage.started(*RUNS)
    words = r'exec: "no-such-program": executable file not found in \$PATH'
    return await refused(stage.exec(container, "no-such-program"), words)


async def a_command_in_what_does_not_run(stage: Stage) -> Any:
    created, exited = await stage.create(*RUNS, name="created"), await stage.started("true")
    await stage.ended(exited)
    words = "container is in CONTAINER_[A-Z]+ state"
    return await refused(stage.exec(created, "true"), words), await refused(stage.exec(exited, "true"), words)


async def a_log_reopened_of_what_does_not_run(stage: Stage) -> Any:
    created = await stage.create(*RUNS)
    return await refused(stage.cri.ReopenContainerLog(cri.ReopenContainerLogRequest(container_id=created)))


# --- lists ------------------------------------------------------------------------------------------------------------


async def lists_by_id_state_and_sandbox(stage: Stage) -> Any:
    runs, created = await stage.started(*RUNS), await stage.create(*RUNS, name="created")

    async def listed(**by: Any) -> list[str]:
        answer = await stage.cri.ListContainers(cri.ListContainersRequest(filter=cri.ContainerFilter(**by)))
        return sorted(each.metadata.name for each in answer.containers)

    exited = cri.ContainerStateValue(state=cri.CONTAINER_EXITED)
    return (
        await listed(id=runs),
        await listed(id=created[:12]),
        await listed(id=ABSENT),
        await listed(pod_sandbox_id=stage.sandbox_id),
        await listed(pod_sandbox_id=stage.sandbox_id, state=exited),
        await listed(pod_sandbox_id=stage.sandbox_id, label_selector={"no": "such"}),
    )
