"""The life of containers: created, started, stopped, removed; and found again by the next server.

    CREATED ──start──► RUNNING ──ends──► EXITED          a start that fails: CREATED ──► EXITED 128 StartError

On disk, a container exists from the creation to the removal of its `record`; with `process/` its start has begun;
`ended` is final (see `store`). So a server that is killed at any point leaves one of these: no container, a created
one, one whose start has begun (`Processes.find` returns its state), or an ended one. A container is listed as UNKNOWN
until its state is known. If the state cannot be found out, the container counts as ended, 255 Unknown; it never becomes
CREATED again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from protos.cri.v1 import api_pb2
from syncpod.kernel.os_errors import where_and_why
from syncpod.runtime import listing, store
from syncpod.runtime.cgroups.limits import CgroupRefused, container_cgroup
from syncpod.runtime.cgroups.resource_changes import changed
from syncpod.runtime.images.config import OwnImage
from syncpod.runtime.images.config import stop_signal as image_stop_signal
from syncpod.runtime.images.inventory import Image
from syncpod.runtime.port import Exited, Process, StartFailed
from syncpod.runtime.processes.process_spec import (
    arguments,
    check_container,
    process_spec,
    stop_signal,
    user,
    wanted_mounts,
)
from syncpod.runtime.recovery import FateUnknown, discard, end_after_kill, find_process, kill_what_runs, unknown_end
from syncpod.runtime.refusals import Refusal, failed, invalid, not_found, precondition, unsupported
from syncpod.runtime.state import Caller, Container, Runtime, Sandbox, in_thread, interned, log, remove_directory
from syncpod.runtime.statuses import container_record, event, image_of, sandbox_record

_START_ERROR = 128
_KILLED: Final = 128 + signal.SIGKILL
_CLOSING_TRIES: Final = 3
_CLOSING_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 60.0
"""The longest pause between two tries to record an end."""


class Containers:
    """Operations on containers, which the caller looks up."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    # --- creation -----------------------------------------------------------------------------------------------------

    def create(self, sandbox: Sandbox, config: api_pb2.ContainerConfig) -> Container:
        """Make a container from a valid config. Nothing here awaits, so no cancellation leaves it half made.

        Raises Refusal.
        """
        runtime = self._runtime
        if not sandbox.ready or sandbox.stopping:
            raise failed(f'sandbox "{sandbox.id}" is not ready: a container needs one that is')
        image = runtime.images.find(config.image.image)
        if image is None:
            raise not_found(f'failed to get image "{config.image.image}": not found')
        own = runtime.own_image(image)
        check_container(
            config,
            runtime.host,
            privileged_sandbox=sandbox.privileged,
            of_own_files=own is not None,
            path="config",
        )
        for index, mount in enumerate(wanted_mounts(config)):
            problem = runtime.processes.refusal(mount)
            if problem:
                raise unsupported(f"config.mounts[{index}]", problem)
        user(config.linux.security_context, runtime.host, "config.linux.security_context", own)
        command = arguments(config, image, runtime.host, "config")
        id = secrets.token_hex(32)
        _, sandbox_config = sandbox_record(runtime, sandbox)
        cgroup = self._checked_cgroup(sandbox_config, config, id)
        name = container_name(config.metadata, sandbox.metadata)
        runtime.containers.reserve(name, id)
        facts = {
            "created_at": time.time_ns(),
            "arguments": command,
            "cgroup": cgroup,
            "log_path": _log_path(sandbox_config, config),
            "stop_signal": config.stop_signal or (image_stop_signal(own.config) if own else config.stop_signal),
            **_image_facts(image, own),
        }
        directory = runtime.container_directory(id)
        request = api_pb2.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=config)
        try:
            directory.mkdir(mode=0o700)
            store.write_record(directory, facts, request.SerializeToString())
            container = self._add(sandbox, id, facts, config)
        except BaseException:
            try:
                store.unmake(directory)
            except OSError as error:
                log(f"{directory} cannot be removed: {where_and_why(error)}")
            finally:
                runtime.containers.release(name)
            raise
        self._publish(container, api_pb2.CONTAINER_CREATED_EVENT)
        return container

    def _checked_cgroup(
        self, sandbox_config: api_pb2.PodSandboxConfig, config: api_pb2.ContainerConfig, id: str
    ) -> str:
        if self._runtime.host.isolation == "simulated":
            return ""
        try:
            cgroup = container_cgroup(sandbox_config.linux.cgroup_parent, id)
        except CgroupRefused as refused:
            raise invalid("sandbox_config.linux.cgroup_parent", str(refused)) from refused
        problem = self._runtime.cgroups.refusal(config.linux.resources)
        if problem:
            raise precondition(problem)
        return cgroup

    def _add(self, sandbox: Sandbox, id: str, facts: Mapping[str, Any], config: api_pb2.ContainerConfig) -> Container:
        container = Container(
            id=id,
            name=container_name(config.metadata, sandbox.metadata),
            sandbox=sandbox,
            short_name=config.metadata.name,
            labels=interned(config.labels),
            entry=listing.container_entry(
                api_pb2.Container(
                    id=id,
                    pod_sandbox_id=sandbox.id,
                    metadata=config.metadata,
                    image=config.image,
                    image_ref=facts["image_id"],
                    image_id=facts["image_id"],
                    created_at=facts["created_at"],
                    labels=config.labels,
                    annotations=config.annotations,
                )
            ),
            created_at=facts["created_at"],
            stop_signal=stop_signal(facts.get("stop_signal", config.stop_signal)),
            cgroup=facts["cgroup"],
            root=sys.intern(facts.get("root", "")),
        )
        sandbox.containers[id] = container
        self._runtime.containers.add(container)
        return container

    # --- start --------------------------------------------------------------------------------------------------------

    async def start(self, container: Container) -> None:
        """Run a created container. Raises Refusal.

        If the caller is cancelled meanwhile, the container is killed. If it was running, it counts as ended, with its
        exit code.
        """
        if container.starting:
            raise failed(f'failed to start container "{container.id}": container is already in starting state')
        if container.removing:
            raise failed(f'failed to start container "{container.id}": container is in removing state')
        if container.state != api_pb2.CONTAINER_CREATED:
            raise failed(f'failed to start container "{container.id}": container is in {container.state_name} state')
        if not container.sandbox.ready or container.sandbox.stopping:
            raise failed(f'failed to start container "{container.id}": sandbox "{container.sandbox.id}" is not running')
        container.starting = True
        caller = Caller()
        starting = self._runtime.begin(self._start(container, caller))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            caller.gone = True
            raise

    async def _start(self, container: Container, caller: Caller) -> None:
        async with container.lock:
            try:
                process = await self._start_process(container)
                if caller.gone or container.sandbox.stopping:
                    why = "context canceled" if caller.gone else f'sandbox "{container.sandbox.id}" was stopped'
                    process.kill()
                    raise StartFailed(f"{why} meanwhile", await process.wait())
            except (StartFailed, CgroupRefused, OSError, Refusal) as error:
                sentence = f"failed to start container process: {where_and_why(error)}"
                self._record_end(container, self._end_of_failed_start(container, error, sentence))
                raise failed(f'failed to start container "{container.id}": {sentence}') from error
            except Exception as error:
                self._record_end(container, _start_error(f"failed to start container process: {error!r}"))
                raise
            finally:
                container.starting = False
            self._runs(container, process)
        self._publish(container, api_pb2.CONTAINER_STARTED_EVENT)

    def _end_of_failed_start(self, container: Container, error: Exception, sentence: str) -> Exited:
        """Return the end of a container whose start failed. If it has run in spite of that, the end has its exit code.

        Difference: containerd lists a failed start even if the container has run to its end.
        """
        ended = error.ended if isinstance(error, StartFailed) else None
        if ended is None or ended.reason == "StartError":
            return _start_error(sentence)
        return replace(self._judged(container, ended), message=sentence if ended.exit_code == _KILLED else "")

    async def _start_process(self, container: Container) -> Process:
        runtime = self._runtime
        facts, config = container_record(runtime, container)
        _, sandbox_config = sandbox_record(runtime, container.sandbox)
        directory = runtime.container_directory(container.id) / "process"
        spec = process_spec(
            config,
            runtime.host,
            id=container.id,
            arguments=tuple(facts["arguments"]),
            log_path=facts["log_path"],
            hostname=_hostname(sandbox_config),
            cgroup_procs=runtime.cgroups.procs(container.cgroup) if container.cgroup else (),
            resolv_conf=runtime.resolv_conf(container.sandbox.id),
            sandbox=listing.read_sandbox(container.sandbox.entry),
            image=image_of(runtime, facts),
        )
        # From here on the start has begun: a later server that finds this directory never starts the container again.
        directory.mkdir(mode=0o700)
        if spec.log_path:
            Path(spec.log_path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if container.cgroup:
            runtime.cgroups.make(container.cgroup, config.linux.resources)
        return await runtime.processes.start(spec, directory)

    def _runs(self, container: Container, process: Process) -> None:
        container.process = process
        container.listed_anew()
        container.watch = self._runtime.begin(self._watch(container, process))

    async def _watch(self, container: Container, process: Process) -> None:
        try:
            exited = self._judged(container, await process.wait())
        except Exception as error:  # noqa: BLE001 - this end must be recorded, or callers wait for ever
            log(f"container {container.id}: its end cannot be found out: {error!r}")
            with contextlib.suppress(OSError):
                process.kill()
            exited = unknown_end(f"its end cannot be found out: {error!r}", process.started_at)
        self._record_end(container, exited)

    def _judged(self, container: Container, exited: Exited) -> Exited:
        """Return the end, with the reason OOMKilled if the container's cgroup has counted an OOM kill."""
        try:
            killed = container.cgroup and self._runtime.cgroups.oom_killed(container.cgroup)
        except (CgroupRefused, OSError, ValueError) as error:
            log(f"container {container.id}: whether it ran out of memory cannot be read: {where_and_why(error)}")
            return exited
        return replace(exited, reason="OOMKilled") if killed else exited

    def _record_end(self, container: Container, exited: Exited) -> None:
        try:
            store.write_ended(self._runtime.container_directory(container.id), exited)
        except OSError as error:
            log(f"container {container.id}: its end cannot be written down yet: {where_and_why(error)}")
            self._runtime.begin(self._write_end_later(container, exited))
        container.ended = exited
        container.process = None
        container.listed_anew()
        # A container that never ran has no event, as in containerd: the caller gets the error.
        if exited.reason != "StartError":
            self._publish(container, api_pb2.CONTAINER_STOPPED_EVENT)
        self._begin_closing(container)

    async def _write_end_later(self, container: Container, exited: Exited) -> None:
        """Record an end, retrying until that works. If this server is killed first, the next one looks for the end."""
        pause = 1.0
        while True:
            await asyncio.sleep(pause)
            if container.removing:
                return
            try:
                store.write_ended(self._runtime.container_directory(container.id), exited)
            except FileNotFoundError:
                return  # Removed.
            except OSError:
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                return

    def _begin_closing(self, container: Container) -> None:
        if container.cgroup and self._runtime.cgroups.hierarchies and container.closing is None:
            container.closing = self._runtime.begin(self._close_cgroup(container))

    async def _close_cgroup(self, container: Container) -> bool:
        """Kill the processes left in the container's cgroup, and remove it; False if it stays. Raises nothing."""
        cgroups, path = self._runtime.cgroups, container.cgroup
        problem: Exception | None = None
        for attempt in range(_CLOSING_TRIES):
            if attempt:
                await asyncio.sleep(attempt * _CLOSING_PAUSE_SECONDS)
            try:
                await in_thread(cgroups.kill, path)
                await in_thread(cgroups.remove, path)
            except Exception as error:  # noqa: BLE001 - a container can be removed even if its cgroup stays
                problem = error
            else:
                return True
        log(f"container {container.id}: its cgroup stays: {problem}")
        return False

    # --- stop and remove ----------------------------------------------------------------------------------------------

    async def stop(self, container: Container, grace: int) -> None:
        """Send the stop signal, wait up to `grace` seconds, kill everything; returns when the end is recorded.

        Does nothing to a container that does not run. A cancelled call kills nothing. Calls can be repeated; the
        shortest grace of concurrent calls counts.
        """
        if container.asking is not None:
            await asyncio.wait({container.asking})
        process, watch = container.process, container.watch
        if process is None or watch is None:
            return
        if grace > 0:
            if not container.stop_signalled:
                container.stop_signalled = True
                process.signal(container.stop_signal)
            await asyncio.wait({watch}, timeout=grace)
        process.kill()
        directory = self._runtime.container_directory(container.id) / "process"
        exited = await end_after_kill(self._runtime, watch, directory, process.started_at)
        if exited is not None and container.ended is None:
            log(f"container {container.id}: its exit was not reported")
            self._record_end(container, self._judged(container, exited))

    async def kill(self, container: Container) -> None:
        """Kill a container at once, even one that is being started."""
        if container.starting:
            async with container.lock:
                pass
        await self.stop(container, 0)

    async def remove(self, container: Container) -> None:
        """Kill a container if it runs, and remove it; this completes even if the caller is cancelled."""
        await asyncio.shield(self._runtime.begin(self._remove(container)))

    async def _remove(self, container: Container) -> None:
        async with container.lock:
            if container.id not in container.sandbox.containers:
                return
            container.removing = True
            await self.stop(container, 0)
            # A busy cgroup is tried again now, because nothing leads to it once the record is gone.
            if container.closing is not None and not await container.closing:
                await self._close_cgroup(container)
            directory = self._runtime.container_directory(container.id)
            if container.ended is not None and container.ended.reason == "Unknown":
                await kill_what_runs(self._runtime, directory / "process")
            store.forget(directory)
            self._runtime.containers.discard(container)
            del container.sandbox.containers[container.id]
            self._publish(container, api_pb2.CONTAINER_DELETED_EVENT)
            await remove_directory(self._runtime, directory)
            if container.root:
                self._runtime.collect_roots()

    # --- resources ----------------------------------------------------------------------------------------------------

    async def update(self, container: Container, resources: api_pb2.LinuxContainerResources) -> None:
        """Change the given limits of a container that has not ended, and its record.

        A container that is not started yet gets the limits at its start. If this raises Refusal or CgroupRefused,
        nothing has changed. Difference: containerd also records changes to a container that has ended.
        """
        runtime = self._runtime
        async with container.lock:
            if container.asking is not None:
                await asyncio.wait({container.asking})
            if container.removing or container.ended is not None:
                raise failed(f'container "{container.id}" is in {container.state_name} state')
            facts, config = container_record(runtime, container)
            if container.cgroup:
                problem = runtime.cgroups.refusal(resources)
                if problem:
                    raise CgroupRefused(problem)
                if container.process is not None:
                    await in_thread(runtime.cgroups.update, container.cgroup, resources, config.linux.resources)
            after = changed(config.linux.resources, resources, started=container.process is not None)
            config.linux.resources.CopyFrom(after)
            request = api_pb2.CreateContainerRequest(pod_sandbox_id=container.sandbox.id, config=config)
            store.write_record(runtime.container_directory(container.id), facts, request.SerializeToString())

    # --- boot ---------------------------------------------------------------------------------------------------------

    def load(self, id: str) -> asyncio.Task[None] | None:
        """Take over the container with this id from an earlier server.

        Returns a task if the container's fate must still be found out; until then it is listed as UNKNOWN. An
        unreadable container is not listed; its process is ended, and its files stay for inspection. Raises the
        errors of reading it.
        """
        runtime = self._runtime
        directory = runtime.container_directory(id)
        try:
            record = store.read_record(directory)
            if record is None:
                return runtime.begin(discard(runtime, directory, "process"))
            facts, serialised = record
            request = api_pb2.CreateContainerRequest.FromString(serialised)
            matching = runtime.sandboxes.matching(request.pod_sandbox_id)
            if not matching:
                return runtime.begin(discard(runtime, directory, "process"))
            container = self._add(matching[0], id, facts, request.config)
        except OSError:
            raise  # This may be temporary.
        except Exception:
            runtime.begin(kill_what_runs(runtime, directory / "process"))
            raise
        self._load_end(container, directory)
        container.listed_anew()
        return container.asking

    def _load_end(self, container: Container, directory: Path) -> None:
        """Load the record of a container's end, if there is one.

        A container whose start has begun never becomes CREATED again.
        """
        damage = ""
        try:
            container.ended = store.read_ended(directory)
        except (ValueError, OSError, RecursionError) as error:
            damage = f"the record of its end cannot be read: {where_and_why(error)}"
            log(f"container {container.id}: {damage}")
        if container.ended is not None:
            self._begin_closing(container)  # The earlier server may have been killed before it did this.
        elif (directory / "process").exists():
            container.asking = self._runtime.begin(self._ask(container, directory / "process"))
        elif damage:
            self._record_end(container, unknown_end(damage))

    async def _ask(self, container: Container, directory: Path) -> None:
        try:
            found = await find_process(self._runtime, directory)
        except FateUnknown as problem:
            found = unknown_end(f"its fate is unknown: {problem}")
            log(f"container {container.id}: {found.message}")
        container.asking = None
        if found is None:
            self._record_end(container, _start_error("the runtime was restarted while the container was being started"))
        elif isinstance(found, Exited):
            self._record_end(container, self._judged(container, found))
        else:
            self._runs(container, found)

    def _publish(self, container: Container, kind: api_pb2.ContainerEventType) -> None:
        runtime = self._runtime
        runtime.events.publish(lambda: event(runtime, container.id, container.sandbox, kind))


def container_name(container: api_pb2.ContainerMetadata, pod: api_pb2.PodSandboxMetadata) -> str:
    """Return the container's unique name, in containerd's form."""
    return "_".join((container.name, pod.name, pod.namespace, pod.uid, str(container.attempt)))


def _image_facts(image: Image, own: OwnImage | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "image": image.repo_tags[0] if image.repo_tags else str(image.reference),
        "image_ref": image.repo_digest,
        "image_id": image.id,
    }
    return facts if own is None else {**facts, "root": own.root.name, "image_config": asdict(own.config)}


def _log_path(sandbox_config: api_pb2.PodSandboxConfig, config: api_pb2.ContainerConfig) -> str:
    """Return the log's absolute path.

    It is empty if either part is empty, and output is then discarded, as in containerd.
    """
    if not sandbox_config.log_directory or not config.log_path:
        return ""
    return str(Path(sandbox_config.log_directory, config.log_path))


def _hostname(sandbox_config: api_pb2.PodSandboxConfig) -> str:
    """Return the host name of a pod's containers; "" if they share that of the machine, which they can then change.

    A pod with its own network has its own host name, so changes stay in the container. As in containerd, it begins as a
    copy of the machine's.
    """
    if sandbox_config.hostname or sandbox_config.linux.security_context.namespace_options.network == api_pb2.NODE:
        return sandbox_config.hostname
    return os.uname().nodename


def _start_error(sentence: str) -> Exited:
    return Exited(_START_ERROR, "StartError", sentence, 0, time.time_ns())
