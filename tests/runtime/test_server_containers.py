"""Real containers through a real server: their status, and their takeover after a server was killed between calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import grpc
import grpc.aio
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime.cgroups.limits import Cgroups
from tests.agent.waiting import until, until_asked
from tests.runtime.real_pods import Pod, is_alive
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded
from tests.runtimes.images import BUSYBOX

RUNS = ("sh", "-c", "exec sleep 600")


async def test_a_container_survives_servers_that_are_killed_between_any_two_calls(
    server: Embedded, calls: BareCri, tmp_path: Path
) -> None:
    pod = Pod(calls, logs=tmp_path)
    await pod.run()
    server.restart()
    status = await calls.runtime.PodSandboxStatus(
        cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox), wait_for_ready=True
    )
    assert status.status.state == cri.SANDBOX_READY
    address = status.status.network.ip
    container = await pod.create(pod.container(*RUNS))
    server.restart()
    assert (await pod.status(container)).state == cri.CONTAINER_CREATED
    await pod.start(container)
    before, pid = await pod.status(container), await pod.pid(container)
    server.restart()
    assert await pod.status(container) == before
    assert await pod.pid(container) == pid and is_alive(pid)
    status = await calls.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox))
    assert status.status.network.ip == address
    await pod.stop(container, 5)
    after = await pod.status(container)
    server.restart()
    assert await pod.status(container) == after
    assert (after.state, after.exit_code, after.reason) == (cri.CONTAINER_EXITED, 143, "Error")
    await calls.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox), wait_for_ready=True)
    server.restart()
    status = await calls.runtime.PodSandboxStatus(
        cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox), wait_for_ready=True
    )
    assert status.status.state == cri.SANDBOX_NOTREADY
    await pod.remove()
    server.restart()
    listed = await calls.runtime.ListPodSandbox(cri.ListPodSandboxRequest(), wait_for_ready=True)
    assert pod.sandbox not in {each.id for each in listed.items}
    assert list((server.state_dir / "containers").iterdir()) == []


async def test_an_exit_without_a_running_server_has_its_code_and_time(server: Embedded, pod: Pod) -> None:
    container = await pod.started("sh", "-c", "sleep 0.3; exit 7")
    pid = await pod.pid(container)
    server.kill()
    await until(lambda: not is_alive(pid))
    server.start()
    booted = server.log.stat().st_mtime_ns
    status = await pod.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 7, "Error")
    assert status.started_at < status.finished_at < booted


async def test_a_sandbox_with_a_killed_pause_process_is_not_ready_and_its_containers_keep_running(
    calls: BareCri, pod: Pod
) -> None:
    container = await pod.started(*RUNS)
    request = cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox, verbose=True)
    os.kill(json.loads((await calls.runtime.PodSandboxStatus(request)).info["info"])["pid"], signal.SIGKILL)

    async def is_down() -> bool:
        return (await calls.runtime.PodSandboxStatus(request)).status.state == cri.SANDBOX_NOTREADY

    await until_asked(is_down)
    assert (await pod.status(container)).state == cri.CONTAINER_RUNNING


async def test_names_stay_reserved_after_a_server_restart(server: Embedded, calls: BareCri, pod: Pod) -> None:
    await pod.create(pod.container(*RUNS))
    server.restart()
    with pytest.raises(grpc.aio.AioRpcError, match="is reserved for"):
        await pod.create(pod.container(*RUNS))
    with pytest.raises(grpc.aio.AioRpcError, match="is reserved for"):
        await calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod.config))


async def test_a_cancelled_create_is_done_completely_or_not_at_all(calls: BareCri, pod: Pod) -> None:
    for number in range(20):
        creation = asyncio.ensure_future(pod.create(pod.container(*RUNS, name=f"c{number}")))
        await asyncio.sleep(0.0002 * number)
        creation.cancel()
    for number in range(20):
        config = pod.container(*RUNS, name=f"c{number}")
        with contextlib.suppress(grpc.aio.AioRpcError):
            await pod.create(config)
    listed = await calls.runtime.ListContainers(
        cri.ListContainersRequest(filter=cri.ContainerFilter(pod_sandbox_id=pod.sandbox))
    )
    assert sorted(each.metadata.name for each in listed.containers) == sorted(f"c{number}" for number in range(20))


async def test_a_cancelled_sandbox_is_removed_and_its_name_freed(server: Embedded, calls: BareCri) -> None:
    earlier = Pod(calls)
    await earlier.run()  # A server has no spawner before its first start.
    await earlier.remove()
    pod = Pod(calls)

    async def listed() -> list[str]:
        answer = await calls.runtime.ListPodSandbox(cri.ListPodSandboxRequest())
        return [each.id for each in answer.items if each.metadata.uid == pod.config.metadata.uid]

    async def made() -> bool:
        with contextlib.suppress(grpc.aio.AioRpcError):
            await pod.run()
        return bool(pod.sandbox) or bool(await listed())

    for _ in range(10):
        with server.gates.hold("runc-create") as gate:
            running = asyncio.ensure_future(pod.run())
            await gate.reached()
            assert await listed() == []
            with pytest.raises(grpc.aio.AioRpcError, match="is reserved for"):
                await Pod.run(pod)
            running.cancel()
        await until_asked(made)
        if pod.sandbox:
            break
        # It was made before the server knew that its client had gone, so this does not count as given up.
        (pod.sandbox,) = await listed()
        await pod.remove()
        pod.sandbox = ""
    assert await listed() == [pod.sandbox] != [""]
    await pod.remove()


async def test_removing_a_pod_removes_its_processes_and_files(server: Embedded, calls: BareCri, tmp_path: Path) -> None:
    pod = Pod(calls, logs=tmp_path)
    await pod.run()
    containers = [await pod.started("sh", "-c", "sleep 1000 & wait", name=f"c{number}") for number in range(3)]
    pids = [await pod.pid(container) for container in containers]
    await pod.remove()
    assert not any(is_alive(pid) for pid in pids)
    for container in containers:
        assert not (server.state_dir / "containers" / container).exists()
        assert (
            await calls.runtime.ListContainers(cri.ListContainersRequest(filter=cri.ContainerFilter(id=container)))
        ).containers == []
    assert not (server.state_dir / "sandboxes" / pod.sandbox).exists()


FOUND = Cgroups.find()


@pytest.mark.skipif(os.geteuid() != 0 or not FOUND.hierarchies, reason=FOUND.why_not or "needs root")
async def test_a_pod_cgroup_is_removed_with_its_sandbox_if_not_with_its_last_container(pod: Pod) -> None:
    container = await pod.started(*RUNS)
    cgroups = [each.base / pod.config.linux.cgroup_parent.lstrip("/") for each in FOUND.hierarchies]
    assert all((cgroup / container).is_dir() for cgroup in cgroups)
    for cgroup in cgroups:
        (cgroup / "in-the-way").mkdir()
    await pod.calls.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert not any((cgroup / container).exists() for cgroup in cgroups)
    for cgroup in cgroups:
        (cgroup / "in-the-way").rmdir()
    await pod.remove()
    assert not any(cgroup.exists() for cgroup in cgroups)


async def test_closing_the_harness_removes_cgroups_of_running_containers() -> None:
    with Embedded.launch() as other:
        async with BareCri(other.endpoint) as calls:
            pod = Pod(calls)
            await pod.run()
            container = await pod.started(*RUNS)
            parents = [each.base / "syncpod-embedded" for each in FOUND.hierarchies if os.geteuid() == 0]
            assert all((parent / container).is_dir() for parent in parents)
    assert not any((parent / container).exists() for parent in parents)


async def test_output_goes_to_the_log_and_its_directories_are_created(pod: Pod, tmp_path: Path) -> None:
    config = pod.container("sh", "-c", "echo out; echo err >&2")
    config.log_path = "sub/0.log"
    container = await pod.create(config)
    assert not (tmp_path / "logs").exists()
    await pod.start(container)
    status = await pod.ended(container)
    assert status.log_path == str(tmp_path / "logs/sub/0.log")
    lines = sorted(line.split(" ", 1)[1] for line in (tmp_path / "logs/sub/0.log").read_text().splitlines())
    assert lines == ["stderr F err", "stdout F out"]


async def test_container_status_has_all_fields(pod: Pod) -> None:
    config = pod.container("sleep", "1000")
    config.labels["l"] = "v"
    config.annotations["a"] = "w"
    config.mounts.add(container_path="/data", host_path="/usr/share", readonly=True)
    config.stop_signal = cri.SIGNAL_SIGUSR1
    container = await pod.create(config)
    await pod.start(container)
    status = await pod.status(container)
    assert status.image.image == f"docker.io/library/{BUSYBOX}" or status.image.image.endswith(BUSYBOX)
    assert status.image_id.startswith("sha256:") and "@sha256:" in status.image_ref
    assert (dict(status.labels), dict(status.annotations)) == ({"l": "v"}, {"a": "w"})
    assert list(status.mounts) == list(config.mounts)
    assert status.stop_signal == cri.SIGNAL_SIGUSR1
    assert status.user.linux.uid == os.getuid()
    await pod.stop(container, 10)
    assert (await pod.status(container)).exit_code == 128 + signal.SIGUSR1


async def test_the_configured_environment_overrides_the_defaults(pod: Pod, calls: BareCri) -> None:
    config = pod.container("sleep", "1000")
    config.envs.add(key="MINE", value="söme".encode())
    config.envs.add(key="HOME", value=b"/elsewhere")
    container = await pod.create(config)
    await pod.start(container)
    answer = await calls.runtime.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=["env"]))
    variables = dict(line.split("=", 1) for line in answer.stdout.decode().splitlines())
    assert variables["MINE"] == "söme" and variables["HOME"] == "/elsewhere" and variables["PATH"]
    assert "PYTHONPATH" not in variables and "VIRTUAL_ENV" not in variables


async def test_a_host_network_pod_has_the_machines_host_name(calls: BareCri, tmp_path: Path) -> None:
    pod = Pod(calls, logs=tmp_path)
    pod.config.hostname = ""  # as the kubelet leaves it
    pod.config.linux.security_context.namespace_options.network = cri.NODE
    await pod.run()
    ran = await pod.calls.ExecSync(cri.ExecSyncRequest(container_id=await pod.started(*RUNS), cmd=["env"]))
    assert f"HOSTNAME={os.uname().nodename}\n".encode() in ran.stdout
    await pod.remove()


async def test_a_container_of_the_pause_image_runs_until_signalled(
    server: Embedded, calls: BareCri, pod: Pod, tmp_path: Path
) -> None:
    config = pod.container()
    config.image.image, config.log_path = "registry.k8s.io/pause:3.10", "pause.log"
    await calls.images.PullImage(cri.PullImageRequest(image=config.image))
    config.linux.security_context.run_as_user.value = os.getuid()
    container = await pod.create(config)
    await pod.start(container)
    pid = await pod.pid(container)
    assert set(os.listdir(f"/proc/{pid}/fd")) == {"0", "1", "2"}  # noqa: PTH208
    ran = await pod.calls.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=["echo", "beside it"]))
    assert ran.stdout == b"beside it\n"
    server.restart()
    assert (await pod.status(container)).state == cri.CONTAINER_RUNNING
    await pod.stop(container, 60)
    status = await pod.status(container)
    assert (status.exit_code, status.reason) == (0, "Completed")
    assert (tmp_path / "logs/pause.log").read_text().endswith(" stderr F Shutting down, got signal: Terminated\n")


async def test_exec_sync_output_is_truncated_to_fit_the_response(pod: Pod, calls: BareCri) -> None:
    container = await pod.started(*RUNS)
    request = cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "head -c 40000000 /dev/zero; exit 4"])
    answer = await calls.runtime.ExecSync(request)
    assert answer.exit_code == 4
    assert 16_000_000 < len(answer.stdout) <= 16 << 20


async def test_exec_sync_does_not_wait_for_background_processes(pod: Pod, calls: BareCri) -> None:
    container = await pod.started(*RUNS)
    command = ["sh", "-c", "sleep 1000 & echo $!; head -c 60000 /dev/zero | tr '\\0' .; exit 5"]
    answer = await calls.runtime.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=command))
    pid, _, written = answer.stdout.decode().partition("\n")
    assert (answer.exit_code, written) == (5, "." * 60_000)
    assert is_alive(int(pid)), "it is the container's own now"
    await pod.stop(container, 0)
    assert not is_alive(int(pid))


async def test_the_writable_layer_of_a_container_is_measured(server: Embedded, pod: Pod, tmp_path: Path) -> None:
    script = "head -c 300000 /dev/zero > /usr/large; head -c 200000 /dev/zero > /tmp/small; echo written; sleep 1000"
    config = pod.container("sh", "-c", script)
    config.log_path = "0.log"
    container = await pod.create(config)
    await pod.start(container)
    await until(lambda: (tmp_path / "logs" / "0.log").exists() and "written" in (tmp_path / "logs/0.log").read_text())
    layer = (await pod.calls.ContainerStats(cri.ContainerStatsRequest(container_id=container))).stats.writable_layer
    assert 500_000 <= layer.used_bytes.value < 1_500_000
    assert layer.inodes_used.value > 2
    assert layer.fs_id.mountpoint == str(server.state_dir)
    again = (await pod.calls.ContainerStats(cri.ContainerStatsRequest(container_id=container))).stats.writable_layer
    assert again.used_bytes == layer.used_bytes


async def test_container_events_report_each_change_with_the_pods_state(server: Embedded, calls: BareCri) -> None:
    reader = calls.runtime.GetContainerEvents(cri.GetEventsRequest())
    told: list[cri.ContainerEventResponse] = []

    async def read() -> None:
        async for event in reader:
            told.append(event)

    async def is_open() -> bool:
        """Whether the stream has sent an event about a pod; its first event is the next one after its opening."""
        other = Pod(calls)
        await other.run()
        await other.remove()
        return bool(told)

    created, started, stopped, deleted = cri.ContainerEventType.values()
    reading = asyncio.ensure_future(read())
    await until_asked(is_open)
    pod = Pod(calls)
    await pod.run()
    container = await pod.started("true")
    await pod.ended(container)
    await pod.remove()
    await until(lambda: told[-1].container_id == pod.sandbox and told[-1].container_event_type == deleted)
    reading.cancel()
    own = [each for each in told if each.container_id in (pod.sandbox, container)]
    assert [(each.container_id == container, each.container_event_type) for each in own] == [
        (False, created),
        (False, started),
        (True, created),
        (True, started),
        (True, stopped),
        (False, stopped),
        (True, deleted),
        (False, deleted),
    ]
    assert all(each.pod_sandbox_status.metadata.uid == pod.config.metadata.uid for each in own[:7])
    assert own[4].containers_statuses[0].state == cri.CONTAINER_EXITED
    assert own[5].pod_sandbox_status.state == cri.SANDBOX_NOTREADY
    assert not own[7].HasField("pod_sandbox_status")


async def test_containers_are_reached_at_their_sandboxs_address(calls: BareCri, pod: Pod) -> None:
    other = Pod(calls)
    await other.run()
    statuses = [
        await calls.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=each.sandbox))
        for each in (pod, other)
    ]
    addresses = {each.status.network.ip for each in statuses}
    assert len(addresses) == 2 and all(address.startswith("127.") for address in addresses)
    await other.remove()


async def test_containers_use_the_resolver_of_their_pod(calls: BareCri) -> None:
    pod = Pod(calls)
    pod.config.dns_config.MergeFrom(
        cri.DNSConfig(servers=["192.0.2.1"], searches=["a.example", "b.example"], options=["ndots:5"])
    )
    await pod.run()
    container = await pod.started(*RUNS)
    answer = await calls.runtime.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=["cat", "/etc/resolv.conf"]))
    assert answer.stdout.decode() == "search a.example b.example\nnameserver 192.0.2.1\noptions ndots:5\n"
    await pod.remove()
