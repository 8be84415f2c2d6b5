"""Full disks, damaged records, and a lack of descriptors or threads: nothing hangs, and no state goes back."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime import recovery, sandboxes, statuses, store
from syncpod.runtime.exec_sync import exec_sync
from syncpod.runtime.images.inventory import parse_reference
from syncpod.runtime.port import Exited, Process
from syncpod.runtime.refusals import Refusal
from syncpod.runtime.state import Container, Sandbox
from tests.agent.waiting import until
from tests.runtime.crashes import ENDS_BY_ITSELF, EXIT_CODE, RUNS_ON, Life, container_config
from tests.runtime.real_pods import Pod
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX

FULL = OSError(errno.ENOSPC, "No space left on device")


class Machine:
    """A state directory with one server after another in this process, so that tests can inject errors."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.life = Life(directory)

    async def boot(self, *, find: Callable[[Path], Any] | None = None) -> Life:
        """Let a new server take over; `find` is called before the processes are found, and may fail."""
        await self.end()
        self.life = Life(self.directory)
        if find is not None:
            processes = cast(Any, self.life.runtime.processes)
            real = processes.find

            async def troubled(directory: Path) -> Any:
                await find(directory)
                return await real(directory)

            processes.find = troubled
        await self.life.boot()
        return self.life

    async def end(self) -> None:
        """End the server; containers keep running."""
        background = tuple(self.life.runtime.background)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self.life.runtime.processes.close()

    @property
    def container(self) -> Container:
        (found,) = self.life.runtime.containers
        return found

    @property
    def sandbox(self) -> Sandbox:
        (found,) = self.life.runtime.sandboxes
        return found

    @property
    def kept(self) -> Path:
        """The directory of the container's record."""
        return self.life.runtime.container_directory(self.container.id)

    def status(self) -> cri.ContainerStatus:
        return statuses.container_status(self.life.runtime, self.container)

    async def running(self) -> Container:
        """Run a pod with one container."""
        life = await self.boot()
        life.runtime.images.pull(parse_reference("busybox"))
        sandbox = life.runtime.sandboxes.get(await life.sandboxes.run(life.config), "id")
        container = life.containers.create(sandbox, container_config(RUNS_ON))
        await life.containers.start(container)
        return container

    async def remove(self) -> None:
        """Remove the pod completely."""
        await self.life.sandboxes.remove(self.sandbox)
        assert len(self.life.runtime.containers) == len(self.life.runtime.sandboxes) == 0
        assert list((self.directory / "containers").iterdir()) == list((self.directory / "sandboxes").iterdir()) == []


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    yield made
    await made.end()


def of_a_container(directory: Path) -> bool:
    return directory.name == "process"


async def test_a_disk_that_is_briefly_full_at_boot_loses_no_state(machine: Machine) -> None:
    before = await machine.running()
    full = [FULL]

    async def find(directory: Path) -> None:
        if of_a_container(directory) and full:
            raise full.pop()

    await machine.boot(find=find)
    assert machine.container.id == before.id
    assert machine.container.state == cri.CONTAINER_RUNNING
    await machine.remove()


async def test_a_container_in_an_undeterminable_state_counts_as_exited_and_can_be_removed(machine: Machine) -> None:
    await machine.running()

    async def find(directory: Path) -> None:
        if of_a_container(directory):
            raise ValueError("torn")

    await machine.boot(find=find)
    status = machine.status()
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
    assert "torn" in status.message
    assert machine.sandbox.ready
    await machine.remove()


async def test_an_unanswering_container_blocks_nobody_and_is_never_listed_as_created(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "_BOOT_SECONDS", 0.05)
    await machine.running()
    answers = asyncio.Event()

    async def find(directory: Path) -> None:
        if of_a_container(directory):
            await answers.wait()

    life = await machine.boot(find=find)
    assert machine.sandbox.ready
    assert machine.status().state == cri.CONTAINER_UNKNOWN
    with pytest.raises(Refusal, match="is in CONTAINER_UNKNOWN state"):
        await life.containers.start(machine.container)
    stopping = asyncio.ensure_future(life.containers.stop(machine.container, 0))
    answers.set()
    await stopping
    assert machine.status().exit_code == 137
    await machine.remove()


async def test_a_failed_watch_counts_as_an_exit(machine: Machine) -> None:
    container = await machine.running()
    await machine.boot()
    container, life = machine.container, machine.life
    process, watch = container.process, container.watch
    assert process is not None and watch is not None
    watch.cancel()

    class Untold:
        started_at = 1

        async def wait(self) -> Exited:
            raise FULL

        def kill(self) -> None:
            """Do nothing: there are no processes."""

    process.kill()
    container.watch = life.runtime.begin(life.containers._watch(container, cast(Process, Untold())))
    await life.containers.stop(container, 1000)
    status = machine.status()
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
    assert "No space left" in status.message and status.started_at == 1
    await machine.remove()


async def test_a_stop_does_not_wait_for_an_exit_that_is_never_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_END_SECONDS", 0.05)
    container, life = await machine.running(), machine.life
    watch = container.watch
    assert watch is not None
    watch.cancel()
    container.watch = cast(Any, life.runtime.begin(asyncio.Event().wait()))
    await life.containers.stop(container, 0)
    assert machine.status().exit_code == 137
    await machine.remove()


async def test_an_exit_that_could_not_be_written_is_written_later(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    container, life = await machine.running(), machine.life
    real, full = store.write_ended, [FULL]

    def write(directory: Path, exited: Exited) -> None:
        if full:
            raise full.pop()
        real(directory, exited)

    monkeypatch.setattr(store, "write_ended", write)
    await life.containers.stop(container, 0)
    assert container.state == cri.CONTAINER_EXITED
    assert store.read_ended(machine.kept) is None
    await until(lambda: store.read_ended(machine.kept) == container.ended)
    await machine.remove()


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"exit_code": "0"}', b"[" * 100_000])
async def test_a_torn_exit_record_is_requested_again(machine: Machine, torn: bytes) -> None:
    container = await machine.running()
    await machine.life.containers.stop(container, 0)
    (machine.kept / "ended").write_bytes(torn)
    await machine.boot()
    assert machine.status().state == cri.CONTAINER_EXITED
    assert machine.status().exit_code == 137
    await machine.remove()


@pytest.mark.parametrize("torn", [b"", b"\n", b"{}\n", b"[]\n", b'{"created_at": 1}\n\xff', b"[" * 100_000 + b"\n"])
async def test_a_torn_record_does_not_affect_other_pods(machine: Machine, torn: bytes) -> None:
    container = await machine.running()
    life = machine.life
    other = cri.PodSandboxConfig()
    other.CopyFrom(life.config)
    other.metadata.name = "other"
    id = await life.sandboxes.run(other)
    damaged = life.containers.create(life.runtime.sandboxes.get(id, "id"), container_config(RUNS_ON))
    await life.containers.start(damaged)
    (life.runtime.container_directory(damaged.id) / "record").write_bytes(torn)
    (life.runtime.sandbox_directory(id) / "record").write_bytes(torn)
    await machine.boot()
    assert machine.container.id == container.id
    assert machine.container.state == cri.CONTAINER_RUNNING
    assert machine.sandbox.ready
    assert await machine.life.sandboxes.run(other), "its name is free"


async def test_a_container_that_cannot_be_recorded_leaves_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.running()
    life, config = machine.life, container_config("other")

    def write(directory: Path, *_: object) -> None:
        (directory / ".record.new").write_bytes(b"half")
        raise FULL

    with monkeypatch.context() as trouble:
        trouble.setattr(store, "write_record", write)
        with pytest.raises(OSError, match="No space"):
            life.containers.create(machine.sandbox, config)
    assert [each.name for each in (machine.directory / "containers").iterdir()] == [machine.container.id]
    assert life.containers.create(machine.sandbox, config).state == cri.CONTAINER_CREATED


@pytest.mark.parametrize("trouble", [FULL, RuntimeError("can't start new thread"), ValueError("unforeseen")])
async def test_a_failed_sandbox_frees_its_name_and_address_even_if_cleanup_fails(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    life = await machine.boot()

    def fails(*_: object) -> None:
        raise trouble

    with monkeypatch.context() as broken:
        broken.setattr(store, "write_record", fails)
        broken.setattr(store, "forget", fails)
        with pytest.raises(type(trouble), match=str(trouble.args[-1])):
            await life.sandboxes.run(life.config)
    assert life.sandboxes._addresses == set()
    assert await life.sandboxes.run(life.config)


async def test_no_thread_is_needed_to_remove_a_pod(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    await machine.running()

    async def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", none)
    await machine.remove()


async def test_a_failed_removal_does_not_count_as_done(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    await machine.running()
    sandbox, real = machine.sandbox, store.forget

    def fails(directory: Path) -> None:
        if directory.parent.name == "sandboxes":
            raise OSError(errno.EIO, "Input/output error")
        real(directory)

    with monkeypatch.context() as trouble:
        trouble.setattr(store, "forget", fails)
        with pytest.raises(OSError, match="Input"):
            await machine.life.sandboxes.remove(sandbox)
    assert machine.sandbox is sandbox
    await machine.remove()


async def test_a_container_is_removed_even_if_its_cgroup_cannot_be(machine: Machine) -> None:
    container = await machine.running()

    class Broken:
        hierarchies = ("one",)

        def kill(self, path: str) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        def oom_killed(self, path: str) -> bool:
            raise OSError(errno.EMFILE, "Too many open files")

        def remove_parent(self, path: str) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    container.cgroup = "/pod/container"
    machine.life.runtime.cgroups = cast(Any, Broken())
    await machine.life.containers.stop(container, 0)
    assert machine.status().exit_code == 137
    await machine.remove()


async def test_the_start_of_a_command_counts_against_its_timeout() -> None:
    class Frozen:
        async def execute(self, command: tuple[str, ...]) -> None:
            await asyncio.Event().wait()

    with pytest.raises(Refusal, match="timeout 1s exceeded") as refusal:
        await exec_sync(cast(Process, Frozen()), "c", ("true",), 1)
    assert refusal.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_container_that_could_not_be_started_sends_no_events(machine: Machine) -> None:
    await machine.running()
    life, told = machine.life, []
    life.runtime.events.publish = lambda event: told.append(event())  # type: ignore[method-assign]
    container = life.containers.create(machine.sandbox, container_config("other"))
    (machine.directory / "containers" / container.id / "process").touch()
    with pytest.raises(Refusal, match="failed to start"):
        await life.containers.start(container)
    assert container.ended is not None and container.ended.reason == "StartError"
    await life.containers.remove(container)
    assert [each.container_event_type for each in told] == [cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_DELETED_EVENT]


async def cut_off(machine: Machine, name: str, *, ends: bool) -> cri.ContainerStatus:
    """Start a container whose caller leaves before the answer; return its status once it has ended."""
    life = machine.life
    container = life.containers.create(machine.sandbox, container_config(name))
    processes, held, answered = cast(Any, life.runtime.processes), asyncio.Event(), asyncio.Event()
    start = processes.start

    async def slow(*given: Any) -> Process:
        process: Process = await start(*given)
        if ends:
            await process.wait()
        held.set()
        await answered.wait()
        return process

    processes.start = slow
    calling = asyncio.ensure_future(life.containers.start(container))
    await held.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    answered.set()
    await until(lambda: container.ended is not None)
    return statuses.container_status(life.runtime, container)


async def test_a_container_that_ended_before_the_caller_of_its_start_went_keeps_its_exit_code(machine: Machine) -> None:
    """An init container that has exited 0 would run again if it were listed as never started."""
    await machine.running()
    status = await cut_off(machine, ENDS_BY_ITSELF, ends=True)
    assert (status.exit_code, status.reason, status.message) == (EXIT_CODE, "Error", "")
    assert 0 < status.started_at <= status.finished_at


async def test_a_container_that_is_killed_since_the_caller_of_its_start_went_has_run(machine: Machine) -> None:
    await machine.running()
    status = await cut_off(machine, "other", ends=False)
    assert (status.exit_code, status.started_at > 0) == (137, True)
    assert status.message == "failed to start container process: context canceled meanwhile"


async def test_the_server_raises_its_file_limit_and_containers_get_the_original_one(tmp_path: Path) -> None:
    limited = ("sh", "-c", 'ulimit -Sn 500 && exec "$@"', "sh")
    with Embedded.launch(within=limited) as server:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (min(hard, 1024 * 1024), hard)
        async with BareCri(server.endpoint, cgroup_parent=server.cgroup_parent) as calls:
            pod = Pod(calls, logs=tmp_path)
            await pod.run()
            container = await pod.started("sh", "-c", "exec sleep 600")
            command = cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "ulimit -Sn; ulimit -Hn"])
            said = (await calls.runtime.ExecSync(command)).stdout.decode().split()
            assert said == ["500", str(hard)]
            assert resource.prlimit(await pod.pid(container), resource.RLIMIT_NOFILE) == (500, hard)
            await pod.remove()


async def test_real_containers_in_trouble_do_not_affect_others(tmp_path: Path) -> None:
    runs = ("sh", "-c", "exec sleep 600")
    with Embedded.launch() as server:
        async with BareCri(server.endpoint, cgroup_parent=server.cgroup_parent) as calls:
            pod = Pod(calls, logs=tmp_path)
            await pod.run()
            sound, frozen, torn, half = [await pod.started(*runs, name=name) for name in ("a", "b", "c", "d")]
            (supervisor,) = server.shims_of(frozen)
            os.kill(supervisor.pid, signal.SIGSTOP)
            server.kill()
            kept = server.state_dir / "containers"
            (kept / torn / "process" / "started.json").write_bytes(b"")
            (kept / half / "process" / "spec.json").write_bytes(b'{"id": ')
            next((server.state_dir / "images").iterdir()).write_bytes(b"")
            server.start()
            assert (await pod.status(sound)).state == cri.CONTAINER_RUNNING
            assert (await pod.status(frozen)).state in (cri.CONTAINER_RUNNING, cri.CONTAINER_UNKNOWN)
            for damaged in (torn, half):
                status = await pod.status(damaged)
                assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
                assert status.message.startswith("its fate is unknown: ")
            for container in (sound, frozen, torn, half):
                await pod.stop(container, 0)
            assert (await pod.status(sound)).exit_code == 137
            await pod.remove()
            assert list(kept.iterdir()) == []


@asynccontextmanager
async def without_descriptors(server: Embedded) -> AsyncIterator[None]:
    """Let the server be unable to open files for the block."""
    before = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, before)


async def test_an_exhausted_resource_is_named_and_the_call_leaves_nothing_behind() -> None:
    with Embedded.launch("--simulate") as server:
        async with BareCri(server.endpoint) as calls:
            config = calls.sandbox_config("pod")
            sandbox = (await calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
            other = calls.sandbox_config("other")
            container = cri.ContainerConfig(
                metadata=cri.ContainerMetadata(name="c"), image=cri.ImageSpec(image=BUSYBOX), command=["x"]
            )
            create = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
            run = cri.RunPodSandboxRequest(config=other)
            async with without_descriptors(server):
                for call in (lambda: calls.runtime.CreateContainer(create), lambda: calls.runtime.RunPodSandbox(run)):
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await call()
                    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, refused.value.details()
                    assert "the machine has no more file descriptors" in (refused.value.details() or "")
            assert list((server.state_dir / "containers").iterdir()) == []
            await until(lambda: [each.name for each in (server.state_dir / "sandboxes").iterdir()] == [sandbox])
            await calls.runtime.CreateContainer(create)
            await calls.runtime.RunPodSandbox(run)
