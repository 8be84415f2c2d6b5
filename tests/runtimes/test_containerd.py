"""The private containerd is a real runtime, and leaves nothing behind."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.runtimes import claim, leftovers
from tests.runtimes.bare import BareCri
from tests.runtimes.containerd import Containerd
from tests.runtimes.images import HTTPD
from tests.runtimes.ports import free_port
from tests.runtimes.processes import processes

pytestmark = pytest.mark.every_runtime("it is the harness of each containerd", each_containerd=True)


@pytest.fixture
def runtime(containerd: Containerd) -> Containerd:
    return containerd


@pytest.fixture
async def bare(containerd: Containerd) -> AsyncIterator[BareCri]:
    async with BareCri(containerd.endpoint, cgroup_parent=containerd.cgroup_parent) as bare:
        yield bare


async def _state(bare: BareCri, container_id: str) -> cri.ContainerState:
    answer = await bare.runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container_id))
    return answer.status.state


async def test_a_pod_on_the_bridge_serves_its_page_at_its_own_address_and_at_a_port_of_the_host(
    containerd: Containerd, bare: BareCri
) -> None:
    port = free_port()
    pod = await bare.start_pod(bare.sandbox_config("web", host_port=port), command=(), image=HTTPD)
    answer = await bare.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox_id))
    address = answer.status.network.ip
    assert address.startswith(str(containerd.subnet)[:-4])
    assert "It works" in await page(address, 80)
    assert "It works" in await page("127.0.0.1", port)
    await bare.remove_pod(pod)


async def test_a_pod_outlives_a_kill_of_containerd(containerd: Containerd, bare: BareCri) -> None:
    pod = await bare.start_pod(bare.sandbox_config("survivor", host_network=True))
    before = containerd.pid
    await asyncio.to_thread(containerd.restart)
    assert containerd.pid != before
    assert await _state(bare, pod.container_id) == cri.CONTAINER_RUNNING
    await bare.remove_pod(pod)


async def test_a_held_call_waits_until_its_gate_opens(containerd: Containerd, bare: BareCri) -> None:
    with containerd.gates.hold("cni-add") as gate:
        config = bare.sandbox_config("slow")
        starting = asyncio.ensure_future(bare.start_pod(config))
        await gate.reached()
        listed = await bare.runtime.ListPodSandbox(cri.ListPodSandboxRequest())
        assert config.metadata.uid not in {sandbox.metadata.uid for sandbox in listed.items}
        assert not starting.done()
        gate.open()
        pod = await starting
    assert await _state(bare, pod.container_id) == cri.CONTAINER_RUNNING
    await bare.remove_pod(pod)


async def test_a_gate_lets_waiting_calls_through_and_holds_later_ones(containerd: Containerd, bare: BareCri) -> None:
    with containerd.gates.hold("cni-add") as gate:
        first = asyncio.ensure_future(bare.start_pod(bare.sandbox_config("first")))
        await gate.reached()
        gate.let_through()
        await bare.remove_pod(await first)
        second = asyncio.ensure_future(bare.start_pod(bare.sandbox_config("second")))
        await gate.reached(2)
        assert not second.done()
    await bare.remove_pod(await second)


@pytest.mark.parametrize("point", ["cni-add", "runc-create"])
async def test_a_refused_call_fails_as_cni_or_runc_would(containerd: Containerd, bare: BareCri, point: str) -> None:
    with containerd.gates.refuse(point) as gate, pytest.raises(grpc.aio.AioRpcError) as raised:
        await bare.start_pod(bare.sandbox_config("refused"))
    assert gate.arrivals >= 1
    assert "refused by the gate" in str(raised.value.details())


def test_an_unknown_gate_is_named(containerd: Containerd) -> None:
    with pytest.raises(ValueError, match=r"no gate 'cni': there are cni-add,"), containerd.gates.hold("cni"):
        pass


async def test_closing_removes_pods_mounts_bridge_firewall_rules_and_cgroups(containerd: Containerd) -> None:
    other = await asyncio.to_thread(Containerd.launch, containerd.series)
    async with BareCri(other.endpoint, cgroup_parent=other.cgroup_parent) as bare:
        await bare.start_pod(bare.sandbox_config("left", host_port=free_port()))
    assert _traces(other.directory) == {"processes", "mounts", "bridge", "firewall", "cgroups", "directory"}
    await asyncio.to_thread(other.close)
    assert _traces(other.directory) == set()


async def test_leftovers_of_a_killed_run_are_removed_by_the_next(containerd: Containerd) -> None:
    async with _command("--version", containerd.series) as (run, endpoint):
        directory = Path(endpoint.removeprefix("unix://")).parent
        async with BareCri(endpoint, cgroup_parent=leftovers.Names.of(directory).cgroup_parent) as bare:
            await bare.start_pod(bare.sandbox_config("orphan"))
        run.kill()
    assert "processes" in _traces(directory)
    with contextlib.closing(await asyncio.to_thread(Containerd.launch, containerd.series)):
        assert _traces(directory) == set()


async def test_the_command_keeps_a_runtime_until_it_is_interrupted(containerd: Containerd, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    async with _command("--version", containerd.series, "--dir", str(directory)) as (run, endpoint):
        assert endpoint == f"unix://{directory}/containerd.sock"
        async with BareCri(endpoint) as bare:
            version = await bare.runtime.Version(cri.VersionRequest())
            assert containerd.version in version.runtime_version
        with pytest.raises(claim.Claimed):
            claim.Claim(directory)
        run.terminate()
    assert run.returncode == 0
    assert _traces(directory) == set()


@contextlib.asynccontextmanager
async def _command(*options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the command until it has printed its endpoint; at the end of the block wait for its end, or kill it."""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtimes.containerd", "start", *options, stdout=asyncio.subprocess.PIPE
    )
    assert run.stdout is not None
    try:
        yield run, (await run.stdout.readline()).decode().strip()
    except BaseException:
        run.kill()
        raise
    finally:
        await run.wait()


def _traces(directory: Path) -> set[str]:
    """Everything on this machine that still belongs to the containerd of that directory."""
    names = leftovers.Names.of(directory)
    rules = subprocess.run(["iptables", "-t", "nat", "-S"], capture_output=True, text=True, check=True).stdout
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout)
    found = {
        "processes": any(str(directory / "containerd.sock") in " ".join(process.argv) for process in processes()),
        "mounts": f" {directory}/" in Path("/proc/self/mountinfo").read_text(),
        "bridge": any(link["ifname"] == names.bridge for link in links),
        "firewall": names.network in rules,
        "cgroups": leftovers.has_cgroup(names.cgroup_parent),
        "directory": directory.exists(),
    }
    return {trace for trace, present in found.items() if present}


async def page(host: str, port: int, *, patience: float = 60.0) -> str:
    """Request `/` until the server listens: the start of a container does not wait for that."""
    deadline = time.monotonic() + patience
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.decode()
