"""The private CRI-O is a real runtime, and leaves nothing behind."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.runtimes import claim, leftovers
from tests.runtimes.bare import BareCri
from tests.runtimes.crio import Crio
from tests.runtimes.images import HTTPD
from tests.runtimes.ports import free_port
from tests.runtimes.processes import processes
from tests.runtimes.test_containerd import page


@pytest.fixture
async def bare(crio: Crio) -> AsyncIterator[BareCri]:
    async with BareCri(crio.endpoint, cgroup_parent=crio.cgroup_parent) as bare:
        yield bare


async def test_a_pod_on_the_bridge_serves_its_page_at_its_own_address_and_at_a_port_of_the_host(
    crio: Crio, bare: BareCri
) -> None:
    port = free_port()
    pod = await bare.start_pod(bare.sandbox_config("web", host_port=port), command=(), image=HTTPD)
    answer = await bare.runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox_id))
    address = answer.status.network.ip
    assert address.startswith(str(crio.subnet)[:-4])
    assert "It works" in await page(address, 80)
    # Not at 127.0.0.1: CRI-O's nftables rules forward only traffic to the machine's other addresses.
    assert "It works" in await page(str(crio.subnet[1]), port)
    await bare.remove_pod(pod)


async def test_a_pod_with_a_shared_pid_namespace_has_a_pause_process(crio: Crio, bare: BareCri) -> None:
    sandbox = bare.sandbox_config("shared", host_network=True)
    sandbox.linux.security_context.namespace_options.pid = cri.NamespaceMode.POD
    pod = await bare.start_pod(sandbox)
    assert len(crio.shims_of(pod.sandbox_id)) == len(crio.shims_of(pod.container_id)) == 1
    await bare.remove_pod(pod)


async def test_a_pod_outlives_a_kill_of_crio(crio: Crio, bare: BareCri) -> None:
    pod = await bare.start_pod(bare.sandbox_config("survivor", host_network=True))
    before = crio.pid
    [conmon] = crio.shims_of(pod.container_id)
    await asyncio.to_thread(crio.restart)
    assert crio.pid != before
    answer = await bare.runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=pod.container_id))
    assert answer.status.state == cri.CONTAINER_RUNNING
    assert crio.shims_of(pod.container_id) == (conmon,)
    await bare.remove_pod(pod)


async def test_a_held_call_waits_until_its_gate_opens(crio: Crio, bare: BareCri) -> None:
    with crio.gates.hold("cni-add") as gate:
        starting = asyncio.ensure_future(bare.start_pod(bare.sandbox_config("slow")))
        await gate.reached()
        assert not starting.done()
        gate.open()
        await bare.remove_pod(await starting)


@pytest.mark.parametrize("point", ["cni-add", "runc-create", "runc-start"])
async def test_a_refused_call_fails_as_cni_or_runc_would(crio: Crio, bare: BareCri, point: str) -> None:
    sandbox = bare.sandbox_config("refused")
    with crio.gates.refuse(point) as gate, pytest.raises(grpc.aio.AioRpcError) as raised:
        await bare.start_pod(sandbox)
    assert gate.arrivals >= 1
    assert "refused by the gate" in str(raised.value.details())
    listed = await bare.runtime.ListPodSandbox(cri.ListPodSandboxRequest())
    for left in listed.items:
        if left.metadata.uid == sandbox.metadata.uid:
            await bare.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=left.id))
            await bare.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=left.id))


async def test_closing_removes_pods_mounts_bridge_ports_and_cgroups(crio: Crio) -> None:
    other = await asyncio.to_thread(Crio.launch)
    async with BareCri(other.endpoint, cgroup_parent=other.cgroup_parent) as bare:
        await bare.start_pod(bare.sandbox_config("left", host_port=free_port()))
    subnet = str(other.subnet)
    everything = {"processes", "mounts", "bridge", "ports", "results", "cgroups", "directory"}
    assert _traces(other.directory, subnet) == everything
    await asyncio.to_thread(other.close)
    assert _traces(other.directory, subnet) == set()


async def test_leftovers_of_a_killed_run_are_removed_by_the_next(crio: Crio) -> None:
    async with _command() as (run, endpoint):
        directory = Path(endpoint.removeprefix("unix://")).parent
        async with BareCri(endpoint, cgroup_parent=leftovers.Names.of(directory).cgroup_parent) as bare:
            await bare.start_pod(bare.sandbox_config("orphan"))
        run.kill()
    assert "processes" in _traces(directory)
    with contextlib.closing(await asyncio.to_thread(Crio.launch)):
        assert _traces(directory) == set()


async def test_the_command_keeps_a_runtime_until_it_is_interrupted(crio: Crio, tmp_path: Path) -> None:
    directory = tmp_path / "c"
    async with _command("--dir", str(directory)) as (run, endpoint):
        assert endpoint == f"unix://{directory}/crio.sock"
        async with BareCri(endpoint) as bare:
            version = await bare.runtime.Version(cri.VersionRequest())
            assert version.runtime_name == crio.kind
            assert crio.version in version.runtime_version
        with pytest.raises(claim.Claimed):
            claim.Claim(directory)
        run.terminate()
    assert run.returncode == 0
    assert _traces(directory) == set()


@contextlib.asynccontextmanager
async def _command(*options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the command until it has printed its endpoint; at the end of the block wait for its end, or kill it."""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtimes.crio", "start", *options, stdout=asyncio.subprocess.PIPE
    )
    assert run.stdout is not None
    try:
        yield run, (await run.stdout.readline()).decode().strip()
    except BaseException:
        run.kill()
        raise
    finally:
        await run.wait()


def _traces(directory: Path, subnet: str = "") -> set[str]:
    """Everything on this machine that still belongs to the CRI-O of that directory or to its subnet."""
    names = leftovers.Names.of(directory)
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout)
    ruled = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    found = {
        "processes": any(f"{directory}/" in argument for process in processes() for argument in process.argv),
        "mounts": f" {directory}/" in Path("/proc/self/mountinfo").read_text(),
        "bridge": any(link["ifname"] == names.bridge for link in links),
        "ports": bool(subnet) and subnet.removesuffix("0/24") in ruled,
        "results": any(Path("/var/lib/cni/results").glob(f"{names.network}-*")),
        "cgroups": leftovers.has_cgroup(names.cgroup_parent),
        "directory": directory.exists(),
    }
    return {trace for trace, present in found.items() if present}
