"""The life of sandboxes: run, stopped, removed; and found again by the next server.

    (being made, not listed) ──► READY ──stop, or the pause dies──► NOTREADY

On disk a sandbox exists once its `record` is written, after its pause has started. A directory without a record does
not count: if a server is killed halfway, the next server kills the pause and removes the directory, and the name is
free again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Container, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from protos.cri.v1 import api_pb2
from syncpod.runtime import listing, store
from syncpod.runtime.cgroups.limits import CgroupRefused, container_cgroup
from syncpod.runtime.containers import Containers
from syncpod.runtime.port import Exited, Process, ProcessSpec, StartFailed
from syncpod.runtime.processes.process_spec import check_sandbox, resolv_conf
from syncpod.runtime.recovery import FateUnknown, discard, end_after_kill, find_process, kill_what_runs
from syncpod.runtime.refusals import failed, invalid, not_found
from syncpod.runtime.state import Caller, Runtime, Sandbox, exhausted, in_thread, interned, log, remove_directory
from syncpod.runtime.statuses import event, sandbox_record

_BOOT_SECONDS: Final = 3.0
"""Seconds for which a new server looks for the processes of an earlier server before it serves. It finds late ones
afterwards."""
_FIRST_ADDRESS: Final = int(IPv4Address("127.1.0.0"))
"""The first address that is used. 127.0.0.0/16 has the machine's resolvers and host names (127.0.0.53, 127.0.1.1)."""
_ADDRESSES: Final = 254 * 256 * 256


class _Abandoned(Exception):
    """The request for the sandbox was cancelled by its client."""


class Sandboxes:
    """Operations on sandboxes, which the caller looks up."""

    def __init__(self, runtime: Runtime, containers: Containers) -> None:
        self._runtime = runtime
        self._containers = containers
        self._addresses: set[str] = set()

    # --- run ----------------------------------------------------------------------------------------------------------

    async def run(self, config: api_pb2.PodSandboxConfig) -> str:
        """Make a sandbox from a valid config, and return its id. It is not listed before this returns.

        If the caller is cancelled, the sandbox is completed and then removed, as in containerd, so that nobody can
        adopt it. Raises Refusal.
        """
        check_sandbox(config, self._runtime.host, "config")
        id = secrets.token_hex(32)
        self._check_cgroup(config.linux.cgroup_parent, id)
        name = sandbox_name(config.metadata)
        self._runtime.sandboxes.reserve(name, id)
        caller = Caller()
        making = self._runtime.begin(self._run(id, name, config, caller))
        try:
            await asyncio.shield(making)
        except asyncio.CancelledError:
            caller.gone = True
            raise
        return id

    async def _run(self, id: str, name: str, config: api_pb2.PodSandboxConfig, caller: Caller) -> None:
        runtime = self._runtime
        directory = runtime.sandbox_directory(id)
        address = ""
        pause: Process | None = None
        try:
            address = self._take_address(id, config)
            pause_directory = directory / "pause"
            directory.mkdir(mode=0o700)
            pause_directory.mkdir(mode=0o700)
            if runtime.host.isolation == "namespaces" and config.HasField("dns_config"):
                resolver = runtime.resolv_conf(id)
                resolver.write_text(resolv_conf(config.dns_config))
                resolver.chmod(0o644)  # containers of any user read the file, but only through their mount
            pause = await runtime.processes.start(self._pause_spec(id, config), pause_directory)
            if caller.gone:
                raise _Abandoned
            facts = {"created_at": time.time_ns(), "address": address}
            request = api_pb2.RunPodSandboxRequest(config=config)
            store.write_record(directory, facts, request.SerializeToString())
        except BaseException as error:
            await self._undo(directory, pause, name, address)
            if isinstance(error, _Abandoned):
                return
            if isinstance(error, (StartFailed, OSError)) and not exhausted(error):
                raise failed(f'failed to start sandbox "{id}": {error}') from error
            raise
        sandbox = self._add(id, facts, config)
        self._runs(sandbox, pause)
        self._publish(sandbox, api_pb2.CONTAINER_CREATED_EVENT)
        self._publish(sandbox, api_pb2.CONTAINER_STARTED_EVENT)

    async def _undo(self, directory: Path, pause: Process | None, name: str, address: str) -> None:
        """Kill and remove an unfinished sandbox. Its name and address are free afterwards, even if this fails."""
        try:
            if pause is not None:
                pause.kill()
                await pause.wait()
            store.forget(directory)
            await remove_directory(self._runtime, directory)
        except Exception as error:  # noqa: BLE001 - the caller gets the error that made the sandbox fail
            log(f"{directory}: the next server removes what is left of a sandbox that failed: {error!r}")
        finally:
            self._addresses.discard(address)
            self._runtime.sandboxes.release(name)

    def _check_cgroup(self, parent: str, id: str) -> None:
        """Refuse a cgroup parent that no container could use.

        It is made only with the cgroup of the first container.
        """
        if self._runtime.host.isolation != "simulated":
            try:
                container_cgroup(parent, id)
            except CgroupRefused as refused:
                raise invalid("config.linux.cgroup_parent", str(refused)) from refused

    def _take_address(self, id: str, config: api_pb2.PodSandboxConfig) -> str:
        if config.linux.security_context.namespace_options.network == api_pb2.NODE:
            return ""
        address = free_address(id, self._addresses)
        self._addresses.add(address)
        return address

    def _pause_spec(self, id: str, config: api_pb2.PodSandboxConfig) -> ProcessSpec:
        simulated = self._runtime.host.isolation == "simulated"
        return ProcessSpec(
            id=id,
            arguments=(),
            script=dict(config.annotations) if simulated else {},
            pod_uid=config.metadata.uid,
        )

    def _add(self, id: str, facts: Mapping[str, Any], config: api_pb2.PodSandboxConfig) -> Sandbox:
        sandbox = Sandbox(
            id=id,
            name=sandbox_name(config.metadata),
            labels=interned(config.labels),
            entry=listing.sandbox_entry(
                api_pb2.PodSandbox(
                    id=id,
                    metadata=config.metadata,
                    created_at=facts["created_at"],
                    labels=config.labels,
                    annotations=config.annotations,
                )
            ),
            address=facts["address"],
            privileged=config.linux.security_context.privileged,
            pause=None,
        )
        self._runtime.sandboxes.add(sandbox)
        return sandbox

    def _runs(self, sandbox: Sandbox, pause: Process) -> None:
        sandbox.pause = pause
        sandbox.watch = self._runtime.begin(self._watch(sandbox, pause))

    async def _watch(self, sandbox: Sandbox, pause: Process) -> None:
        try:
            await pause.wait()
        except Exception as error:  # noqa: BLE001 - this end must be recorded, or callers wait for ever
            log(f"sandbox {sandbox.id}: the end of its pause cannot be found out: {error!r}")
            with contextlib.suppress(OSError):
                pause.kill()
        self._ended(sandbox)

    def _ended(self, sandbox: Sandbox) -> None:
        sandbox.pause = None
        sandbox.entry = listing.with_state(sandbox.entry, api_pb2.SANDBOX_NOTREADY)
        self._publish(sandbox, api_pb2.CONTAINER_STOPPED_EVENT)

    # --- stop and remove ----------------------------------------------------------------------------------------------

    async def stop(self, sandbox: Sandbox) -> None:
        """Kill the containers and the pause at once; this completes even if the caller is cancelled."""
        await asyncio.shield(self._runtime.begin(self._stop(sandbox)))

    async def _stop(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            await self._stop_locked(sandbox)

    async def _stop_locked(self, sandbox: Sandbox) -> None:
        sandbox.stopping = True
        if sandbox.asking is not None:
            await asyncio.wait({sandbox.asking})
        # The others are killed even if one container cannot be killed.
        kills = (self._containers.kill(each) for each in tuple(sandbox.containers.values()))
        failures = [each for each in await asyncio.gather(*kills, return_exceptions=True) if each is not None]
        directory = self._runtime.sandbox_directory(sandbox.id) / "pause"
        if sandbox.unanswered:
            await kill_what_runs(self._runtime, directory)
        pause, watch = sandbox.pause, sandbox.watch
        if pause is not None and watch is not None:
            pause.kill()
            if await end_after_kill(self._runtime, watch, directory, pause.started_at) and sandbox.pause is not None:
                self._ended(sandbox)
        if failures:
            raise failures[0]

    async def remove(self, sandbox: Sandbox) -> None:
        """Stop a sandbox and remove it with its containers; this completes even if the caller is cancelled."""
        await asyncio.shield(self._runtime.begin(self._remove(sandbox)))

    async def _remove(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            if sandbox.removing:
                return
            await self._stop_locked(sandbox)
            for container in tuple(sandbox.containers.values()):
                await self._containers.remove(container)
            await self._remove_cgroup(sandbox)
            directory = self._runtime.sandbox_directory(sandbox.id)
            store.forget(directory)
            sandbox.removing = True
            self._runtime.sandboxes.discard(sandbox)
            self._addresses.discard(sandbox.address)
            self._publish(sandbox, api_pb2.CONTAINER_DELETED_EVENT)
            await remove_directory(self._runtime, directory)

    async def _remove_cgroup(self, sandbox: Sandbox) -> None:
        """Remove the pod's cgroup if it is empty and we made it."""
        cgroups = self._runtime.cgroups
        if not cgroups.hierarchies:
            return
        try:
            _, config = sandbox_record(self._runtime, sandbox)
            await in_thread(cgroups.remove_parent, config.linux.cgroup_parent)
        except Exception as error:  # noqa: BLE001 - a sandbox goes even if its cgroup stays or its record is torn
            log(f"sandbox {sandbox.id}: its cgroup stays: {error}")

    # --- resources ----------------------------------------------------------------------------------------------------

    async def update(self, sandbox: Sandbox, sizes: api_pb2.UpdatePodSandboxResourcesRequest) -> None:
        """Record the given resources in the sandbox's config. Raises Refusal if the sandbox is gone."""
        async with sandbox.lock:
            if sandbox.removing:
                raise not_found(f'sandbox "{sandbox.id}": not found')
            facts, config = sandbox_record(self._runtime, sandbox)
            if sizes.HasField("overhead"):
                config.linux.overhead.CopyFrom(sizes.overhead)
            if sizes.HasField("resources"):
                config.linux.resources.CopyFrom(sizes.resources)
            request = api_pb2.RunPodSandboxRequest(config=config)
            store.write_record(self._runtime.sandbox_directory(sandbox.id), facts, request.SerializeToString())

    # --- boot ---------------------------------------------------------------------------------------------------------

    def load(self, id: str) -> asyncio.Task[None] | None:
        """Take over the sandbox with this id from an earlier server.

        Returns a task if the sandbox's fate must still be found out; until then it is listed as NOTREADY. An unreadable
        sandbox is not listed; its process is ended, and its files stay for inspection. Raises the errors of reading the
        record.
        """
        runtime = self._runtime
        directory = runtime.sandbox_directory(id)
        pause = directory / "pause"
        try:
            record = store.read_record(directory)
            if record is None:
                return runtime.begin(discard(runtime, directory, "pause"))
            facts, request = record
            sandbox = self._add(id, facts, api_pb2.RunPodSandboxRequest.FromString(request).config)
        except OSError:
            raise  # This may be temporary.
        except Exception:
            runtime.begin(kill_what_runs(runtime, pause))
            raise
        self._addresses.add(sandbox.address)
        sandbox.entry = listing.with_state(sandbox.entry, api_pb2.SANDBOX_NOTREADY)
        if pause.exists():
            sandbox.asking = runtime.begin(self._ask(sandbox, pause))
        return sandbox.asking

    async def _ask(self, sandbox: Sandbox, directory: Path) -> None:
        try:
            found = await find_process(self._runtime, directory)
        except FateUnknown as problem:
            log(f"sandbox {sandbox.id}: what became of its pause cannot be found out: {problem}")
            sandbox.unanswered = True
            found = None
        sandbox.asking = None
        if found is not None and not isinstance(found, Exited):
            sandbox.entry = listing.with_state(sandbox.entry, api_pb2.SANDBOX_READY)
            self._runs(sandbox, found)

    def _publish(self, sandbox: Sandbox, kind: api_pb2.ContainerEventType) -> None:
        runtime = self._runtime
        runtime.events.publish(lambda: event(runtime, sandbox.id, sandbox, kind))


def sandbox_name(metadata: api_pb2.PodSandboxMetadata) -> str:
    """Return the sandbox's unique name, in containerd's form."""
    return "_".join((metadata.name, metadata.namespace, metadata.uid, str(metadata.attempt)))


async def load_all(runtime: Runtime, sandboxes: Sandboxes, containers: Containers) -> None:
    """Take over everything from an earlier server: sandboxes first, since containers belong to them.

    Everything is listed when this returns, after a few seconds at most: it looks for all processes concurrently, and
    does not wait for late answers.
    """
    asked = []
    for parent, load in (
        (runtime.directory / "sandboxes", sandboxes.load),
        (runtime.directory / "containers", containers.load),
    ):
        parent.mkdir(mode=0o700, exist_ok=True)
        asked += [task for directory in sorted(parent.iterdir()) if (task := _loaded(load, directory))]
    if asked:
        _, late = await asyncio.wait(asked, timeout=_BOOT_SECONDS)
        if late:
            log(f"of {len(asked)} sandboxes and containers that are left, {len(late)} are still being looked for")


def _loaded(load: Callable[[str], asyncio.Task[None] | None], directory: Path) -> asyncio.Task[None] | None:
    try:
        return load(directory.name)
    except Exception as error:  # noqa: BLE001 - the others must be served even if one cannot be read
        log(f"{directory} cannot be taken over, and stays as it is: {error!r}")
        return None


def free_address(sandbox_id: str, taken: Container[str]) -> str:
    """Return an address for the sandbox that is not `taken`. It is in 127.0.0.0/8, which is the machine's own.

    The address is derived from the id, so that two servers on one machine hardly ever choose the same.
    """
    offset = int.from_bytes(hashlib.sha256(sandbox_id.encode()).digest()[:8])
    for attempt in range(_ADDRESSES):
        address = IPv4Address(_FIRST_ADDRESS + (offset + attempt) % _ADDRESSES)
        if address.packed[3] not in (0, 255) and str(address) not in taken:
            return str(address)
    raise OverflowError("every address of 127.0.0.0/8 has its sandbox")
