"""The client against real runtimes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from protos.cri.v1 import api_pb2 as cri
from syncpod.cri.client import CriClient
from syncpod.cri.errors import (
    AlreadyStarted,
    CommandTimedOut,
    ImageAbsent,
    InvalidImageName,
    NameReserved,
    NotFound,
    RuntimeFailure,
    Unavailable,
    Unimplemented,
)
from syncpod.translation import names
from tests.agent.waiting import until, until_asked
from tests.node.owned_pods import OWNER, OwnedPod, owned_pod
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import BUSYBOX, NOBODY, USER_1000
from tests.traps import until_trapped

pytestmark = pytest.mark.every_runtime("the client translates what each runtime answers", each_containerd=True)


@pytest_asyncio.fixture
async def client(cri_endpoint: str) -> AsyncIterator[CriClient]:
    async with CriClient(cri_endpoint) as client:
        yield client


@pytest_asyncio.fixture
async def pod(client: CriClient, runtime: Containerd, tmp_path: Path) -> AsyncIterator[OwnedPod]:
    """A pod that shares the node's network."""
    async with owned_pod(client, cgroup_parent=runtime.cgroup_parent, logs=tmp_path) as pod:
        yield pod


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def rotate(log: Path) -> None:
    log.rename(log.with_name(f"{log.name}.rotated"))


def logs(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.log*"))


def cpu_weight(pod: OwnedPod, container_id: str) -> str:
    """The CPU shares of a container, or its weight in version 2 of cgroups."""
    below = f"{pod.sandbox.linux.cgroup_parent}/{container_id}"
    for path in (f"/sys/fs/cgroup/cpu{below}/cpu.shares", f"/sys/fs/cgroup{below}/cpu.weight"):
        if Path(path).exists():
            return Path(path).read_text().strip()
    raise AssertionError(f"container {container_id} has no cgroup")


async def test_runtime_reports_its_version_and_status(client: CriClient, runtime: Containerd) -> None:
    version = await client.version()
    assert version.name == "containerd"
    assert runtime.version in version.version

    status = await client.status()
    assert (status.runtime_ready, status.network_ready) == (True, True)
    assert (status.runtime_message, status.network_message) == ("", "")
    assert not status.info
    assert "config" in (await client.status(verbose=True)).info


async def test_features_are_read_from_the_runtimes_status(client: CriClient, runtime: Containerd) -> None:
    status = await client.status()
    announces = runtime.version.startswith("2.")
    assert status.supplemental_groups_policy is announces
    assert ("" in [handler.name for handler in status.runtime_handlers]) is announces


async def test_cgroup_driver_is_found_without_the_runtime_config_call(client: CriClient) -> None:
    """containerd 1.6 does not know the call; the default given here would be wrong."""
    assert await client.runtime_config(default="systemd") == "cgroupfs"


async def test_sandbox_is_run_listed_stopped_and_removed(client: CriClient, pod: OwnedPod) -> None:
    sandbox_id = await pod.run(attempt=3)

    (listed,) = await client.list_pod_sandboxes(labels={names.POD_UID_LABEL: pod.uid})
    assert (listed.id, listed.attempt, listed.state) == (sandbox_id, 3, "SANDBOX_READY")
    assert (listed.uid, listed.name, listed.namespace) == (pod.uid, "web", "default")
    assert listed.labels[names.NODE_LABEL] == OWNER
    assert listed.created_at is not None and listed.created_at.tzinfo is not None

    status = await client.pod_sandbox_status(sandbox_id)
    assert (status.network_mode, status.ip, status.pid) == ("NODE", "", 0)
    assert status.annotations[names.INCARNATION_ANNOTATION] == "life-1"
    assert status.created_at == listed.created_at
    verbose = await client.pod_sandbox_status(sandbox_id, verbose=True)
    await until(lambda: b"pause" in command_line(verbose.pid))  # runc becomes that program

    await client.stop_pod_sandbox(sandbox_id)
    await client.stop_pod_sandbox(sandbox_id)
    await until_asked(lambda: is_stopped(client, sandbox_id))
    await client.remove_pod_sandbox(sandbox_id)
    await client.remove_pod_sandbox(sandbox_id)
    assert await client.list_pod_sandboxes(labels={names.POD_UID_LABEL: pod.uid}) == ()
    with pytest.raises(NotFound):
        await client.pod_sandbox_status(sandbox_id)


async def is_stopped(client: CriClient, sandbox_id: str) -> bool:
    """Return whether a sandbox is listed as stopped, which containerd 2 does only shortly after its answer."""
    return (await client.pod_sandbox_status(sandbox_id)).state == "SANDBOX_NOTREADY"


async def test_container_is_run_exits_and_is_removed(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    config = pod.container("main", ("sh", "-c", "trap 'exit 7' TERM; while :; do sleep 600 & wait $!; done"), restart=2)
    container_id = await pod.create(config)

    created = (await client.container_status(container_id)).container
    assert (created.state, created.started_at, created.finished_at) == ("created", None, None)

    await client.start_container(container_id)
    answer = await client.container_status(container_id, verbose=True)
    running = answer.container
    assert (running.name, running.restart_count, running.state) == ("main", 2, "running")
    assert running.started_at is not None and running.finished_at is None
    await until(lambda: b"trap" in command_line(running.pid))  # runc becomes that program
    assert running.log_path == f"{pod.sandbox.log_directory}/main/2.log"
    assert answer.annotations[names.CONTAINER_HASH_ANNOTATION] == "11a6d6d6"
    assert running.image == BUSYBOX

    await until_trapped(running.pid)
    await client.stop_container(container_id, timeout_seconds=10)
    exited = (await client.container_status(container_id)).container
    assert (exited.state, exited.exit_code, exited.reason) == ("exited", 7, "Error")
    assert exited.started_at is not None and exited.finished_at is not None
    assert exited.finished_at > exited.started_at

    (listed,) = await client.list_containers(labels={names.POD_UID_LABEL: pod.uid})
    assert (listed.id, listed.sandbox_id, listed.state) == (container_id, pod.sandbox_id, "exited")
    assert await client.list_containers(sandbox_id=pod.sandbox_id, id=container_id) == (listed,)
    assert await client.list_containers(labels={names.NODE_LABEL: "node-b"}) == ()

    await client.remove_container(container_id)
    await client.remove_container(container_id)
    with pytest.raises(NotFound):
        await client.container_status(container_id)


async def test_a_process_is_found_though_its_environment_makes_the_verbose_status_too_large(
    client: CriClient, pod: OwnedPod
) -> None:
    """JSON has six bytes for each such character, and containerd tells the environment twice."""
    await pod.run()
    env = tuple((f"LARGE_{number}", "<" * 120_000) for number in range(15))
    container_id = await pod.start(pod.container(env=env))
    running = (await client.container_status(container_id, verbose=True)).container
    assert running.state == "running"
    await until(lambda: b"sleep" in command_line(running.pid))  # runc becomes that program


async def test_second_sandbox_of_the_same_name_is_refused_and_the_holder_named(pod: OwnedPod) -> None:
    first = await pod.run()
    with pytest.raises(NameReserved) as caught:
        await pod.run()
    assert caught.value.holder_id == first


async def test_second_container_of_a_name_is_refused_naming_the_first(pod: OwnedPod) -> None:
    await pod.run()
    first = await pod.create()
    with pytest.raises(NameReserved) as caught:
        await pod.create()
    assert caught.value.holder_id == first


async def test_sandbox_being_created_reserves_its_name_without_being_listed(
    client: CriClient, pod: OwnedPod, runtime: Containerd
) -> None:
    pod.sandbox.linux.security_context.namespace_options.network = cri.NamespaceMode.POD
    with runtime.gates.hold("cni-add") as gate:
        making = asyncio.create_task(pod.run())
        await gate.reached()
        with pytest.raises(NameReserved) as caught:
            await client.run_pod_sandbox(pod.sandbox)
        assert await client.list_pod_sandboxes(labels={names.POD_UID_LABEL: pod.uid}) == ()
    assert await making == caught.value.holder_id
    assert (await client.pod_sandbox_status(caught.value.holder_id)).ip


async def test_container_starts_only_once(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    container_id = await pod.start()
    with pytest.raises(AlreadyStarted) as caught:
        await client.start_container(container_id)
    assert caught.value.state == "running"

    await client.stop_container(container_id, timeout_seconds=0)
    with pytest.raises(AlreadyStarted) as caught:
        await client.start_container(container_id)
    assert caught.value.state == "exited"


async def test_start_of_a_missing_program_leaves_a_start_error(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    container_id = await pod.create(pod.container(command=("/nope",)))
    with pytest.raises(RuntimeFailure, match="/nope"):
        await client.start_container(container_id)
    status = (await client.container_status(container_id)).container
    assert (status.state, status.exit_code, status.reason) == ("exited", 128, "StartError")
    assert status.started_at is None and status.finished_at is not None


async def test_container_of_a_missing_image_is_refused(pod: OwnedPod) -> None:
    await pod.run()
    with pytest.raises(ImageAbsent):
        await pod.create(pod.container(image="docker.io/library/nope:1"))


async def test_container_in_a_missing_sandbox_is_refused(client: CriClient, pod: OwnedPod) -> None:
    with pytest.raises(NotFound) as caught:
        await client.create_container("nope", pod.container(), pod.sandbox)
    assert not isinstance(caught.value, ImageAbsent)


async def test_calls_for_missing_ids_fail_with_not_found(client: CriClient, runtime: Containerd) -> None:
    with pytest.raises(NotFound):
        await client.container_status("nope")
    with pytest.raises(NotFound):
        await client.start_container("nope")
    with pytest.raises(NotFound):
        await client.discard_task("nope")
    if runtime.version.startswith("1."):
        with pytest.raises(NotFound):
            await client.stop_container("nope", timeout_seconds=1)
    else:
        await client.stop_container("nope", timeout_seconds=1)


async def test_command_runs_in_a_container(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    container_id = await pod.start()
    command = ("sh", "-c", "echo out; echo err >&2; exit 3")
    result = await client.exec_sync(container_id, command, timeout_seconds=10)
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
    assert (await client.exec_sync(container_id, ("true",), timeout_seconds=0)).exit_code == 0
    with pytest.raises(CommandTimedOut):
        await client.exec_sync(container_id, ("sleep", "100"), timeout_seconds=1)
    with pytest.raises(RuntimeFailure, match="nope"):
        await client.exec_sync(container_id, ("nope",), timeout_seconds=10)


async def test_what_happens_to_a_container_is_announced_with_its_pods_labels(client: CriClient, pod: OwnedPod) -> None:
    heard: dict[str, dict[str, str]] = {}
    ended: dict[str, list[bool]] = defaultdict(list)

    async def listen() -> None:
        async for event in client.container_events():
            heard[event.id] = dict(event.labels)
            ended[event.id].append(event.is_end)

    listening = asyncio.create_task(listen())
    try:
        await pod.run()
        container = await pod.start()
        await client.stop_container(container, timeout_seconds=0)
        await until(lambda: any(ended[container]) or listening.done())
        if listening.done():
            with pytest.raises(Unimplemented):  # containerd 1.6; CRI-O as it is configured by default
                listening.result()
        else:
            assert heard[container][names.POD_UID_LABEL] == pod.uid
            assert heard[container][names.NODE_LABEL] == OWNER
            assert ended[container].index(True) > 0, "its start is announced, and is no end"
    finally:
        listening.cancel()


async def test_streaming_calls_return_a_url(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    container_id = await pod.start()
    command = ("true",)
    url = await client.exec(container_id, command, tty=False, stdin=False, stdout=True, stderr=True)
    assert url.startswith("http://127.0.0.1:")
    url = await client.attach(container_id, tty=False, stdin=False, stdout=True, stderr=True)
    assert url.startswith("http://127.0.0.1:")


async def test_log_continues_in_a_new_file_after_reopen(client: CriClient, pod: OwnedPod, tmp_path: Path) -> None:
    await pod.run()
    container_id = await pod.start()
    rotate(tmp_path / "main" / "0.log")
    await client.reopen_container_log(container_id)
    assert logs(tmp_path) == ["main/0.log", "main/0.log.rotated"]


async def test_container_limits_are_updated_in_place(client: CriClient, pod: OwnedPod) -> None:
    await pod.run()
    container_id = await pod.start()
    before = cpu_weight(pod, container_id)
    await client.update_container_resources(container_id, cri.LinuxContainerResources(cpu_shares=512))
    assert cpu_weight(pod, container_id) != before
    assert cpu_weight(pod, container_id) in ("512", "20")


async def test_image_status_has_the_images_user(client: CriClient) -> None:
    plain, number, name = [await client.image_status(image) for image in (BUSYBOX, USER_1000, NOBODY)]
    assert plain is not None and number is not None and name is not None
    assert BUSYBOX in plain.repo_tags and plain.size > 0
    assert (number.uid, number.username) == (1000, "")
    assert (name.uid, name.username) == (None, "nobody")
    assert {plain.id, number.id, name.id} <= {image.id for image in await client.list_images()}


async def test_status_of_a_missing_image_is_none(client: CriClient) -> None:
    assert await client.image_status("docker.io/library/nope:1") is None
    await client.remove_image("docker.io/library/nope:1")


async def test_pull_from_an_unreachable_registry_fails(client: CriClient) -> None:
    with pytest.raises(RuntimeFailure, match="connection refused") as caught:
        await client.pull_image("localhost:1/x:1")
    assert not isinstance(caught.value, InvalidImageName)


async def test_pull_of_an_invalid_name_fails_permanently(client: CriClient) -> None:
    with pytest.raises(InvalidImageName):
        await client.pull_image("UPPER:::x")


async def test_image_fs_info_has_the_disk_of_images(client: CriClient, runtime: Containerd) -> None:
    (images,) = (await client.image_fs_info()).image_filesystems
    # Measured every ten seconds: the runtime may not yet know how much it is.
    assert images.measured_at is not None and images.used_bytes >= 0
    assert images.mountpoint.startswith(str(runtime.directory))


async def test_client_reconnects_after_the_runtime_was_down(client: CriClient, runtime: Containerd) -> None:
    await client.version()
    runtime.kill()
    try:
        with pytest.raises(Unavailable):
            await client.version()
    finally:
        runtime.start()
    async with CriClient(runtime.endpoint) as fresh:
        expected = await fresh.version()

    async def is_back() -> bool:
        try:
            return await client.version() == expected
        except Unavailable:
            return False

    await until_asked(is_back)


async def test_all_pods_are_measured_with_one_call(client: CriClient, pod: OwnedPod) -> None:
    """containerd 2 measures every few seconds: the figures of a new container come a little later."""
    await pod.run()
    running = await pod.create(pod.container("main", ("sleep", "600")))
    await client.start_container(running)

    async def is_measured() -> bool:
        measured = await client.list_sandbox_stats(labels={names.NODE_LABEL: OWNER}, timeout_seconds=60)
        mine = {each.id: each for each in measured}[pod.sandbox_id]
        assert (mine.uid, mine.name) == (pod.sandbox.metadata.uid, pod.sandbox.metadata.name)
        used = {each.id: each for each in mine.containers}.get(running)
        return used is not None and used.cpu is not None and bool(used.working_set_bytes)

    await until_asked(is_measured)
