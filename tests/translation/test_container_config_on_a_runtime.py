"""A pod on a real runtime matches its manifest, seen from inside and from the node."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from syncpod.cri.client import CriClient
from syncpod.kernel.cgroupfs import whole_hierarchies
from syncpod.kernel.mountinfo import read_mounts
from syncpod.node.directories import (
    plan_container,
    plan_pod,
    prepare_container,
    prepare_pod,
    remove_pod_files,
)
from syncpod.node.host import read_host
from syncpod.objects import ObjectStore
from syncpod.pod import Container, ContainerKind, Pod
from syncpod.translation.cgroup_paths import pod_cgroup
from syncpod.translation.container_config import container_config, container_variables
from syncpod.translation.context import NodeContext, ordered_pod_ips
from syncpod.translation.sandbox_config import sandbox_config
from tests.runtimes.images import BUSYBOX, USER_1000
from tests.translation.translation import NODE, make_pod

pytestmark = pytest.mark.every_runtime("the configuration is read by the runtime")

SLEEP = ["sleep", "1000"]
HIERARCHIES = [each.path for each in whole_hierarchies(read_mounts())]
NETWORK, HOSTS = str(Path("/proc/self/ns/net").readlink()), Path("/etc/hosts").read_text()
"""The node's own network namespace and hosts file."""


@dataclass
class Running:
    """A sandbox of a real runtime, in which tests start and inspect containers."""

    client: CriClient
    node: NodeContext
    pod: Pod
    sandbox_id: str
    pod_ips: tuple[str, ...]

    async def start(self, container: Container, *, kind: ContainerKind = "container", target_id: str = "") -> str:
        prepare_container(plan_container(self.pod, container, self.node, self.pod_ips))
        variables = container_variables(self.pod, container, kind=kind, pod_ips=self.pod_ips, node=self.node)
        config = container_config(
            self.pod,
            container,
            kind=kind,
            restart_count=0,
            observed_image=await self.client.image_status(container.image),
            pod_ips=self.pod_ips,
            node=self.node,
            incarnation="life-1",
            variables=variables,
            target_id=target_id,
        )
        sandbox = sandbox_config(self.pod, attempt=0, node=self.node, incarnation="life-1")
        container_id = await self.client.create_container(self.sandbox_id, config, sandbox)
        await self.client.start_container(container_id)
        return container_id

    async def shell(self, container_id: str, command: str) -> str:
        """The output of a shell script in the container, including its errors."""
        result = await self.client.exec_sync(container_id, ("sh", "-c", command), timeout_seconds=10)
        return (result.stdout + result.stderr).decode().strip()


@pytest.fixture
async def client(cri_endpoint: str) -> AsyncIterator[CriClient]:
    client = CriClient(cri_endpoint)
    yield client
    await client.close()


class Pods:
    """Runs pods, and removes all of them at the end of a test."""

    def __init__(self, client: CriClient, directory: Path) -> None:
        self.client = client
        self.running: list[Running] = []
        self.node = replace(
            NODE,
            state_dir=directory / "state",
            memory_dir=directory / "memory",
            log_dir=directory / "logs",
            cgroup_parent=f"syncpod-test-{os.getpid()}",
            host=read_host(),
        )

    async def run(self, spec: dict[str, Any], **metadata: Any) -> Running:
        pod = make_pod(spec, uid=f"uid-{os.getpid()}-{len(self.running)}", **metadata)
        prepare_pod(plan_pod(pod, self.node), ObjectStore(self.node.state_dir, self.node.memory_dir))
        config = sandbox_config(pod, attempt=0, node=self.node, incarnation="life-1")
        sandbox_id = await self.client.run_pod_sandbox(config)
        status = await self.client.pod_sandbox_status(sandbox_id)
        addresses = ordered_pod_ips(status.ip, status.additional_ips, self.node.host.addresses)
        self.running.append(Running(self.client, self.node, pod, sandbox_id, addresses))
        return self.running[-1]

    async def remove(self) -> None:
        for each in self.running:
            await self.client.stop_pod_sandbox(each.sandbox_id)
            await self.client.remove_pod_sandbox(each.sandbox_id)
            meta = each.pod.metadata
            remove_pod_files(self.node, namespace=meta.namespace, name=meta.name, uid=meta.uid)
        self.running.clear()
        for hierarchy in HIERARCHIES:
            parent = hierarchy / self.node.cgroup_parent
            for cgroup in (parent / "burstable", parent / "besteffort", parent):
                if cgroup.exists():
                    cgroup.rmdir()


@pytest.fixture
async def pods(client: CriClient, tmp_path: Path) -> AsyncIterator[Pods]:
    pods = Pods(client, tmp_path)
    yield pods
    await pods.remove()


def demanding_spec(given: Path) -> dict[str, Any]:
    """A pod's spec with a request of every kind; `given` is a directory of the node."""
    return {
        "hostname": "front",
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "given", "hostPath": {"path": str(given), "type": "Directory"}},
        ],
        "securityContext": {
            "fsGroup": 2000,
            "supplementalGroups": [4000],
            "sysctls": [{"name": "net/ipv4/ip_unprivileged_port_start", "value": "81"}],
        },
        "containers": [
            {
                "name": "main",
                "image": BUSYBOX,
                "command": SLEEP,
                "workingDir": "/scratch",
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "GREETING", "value": "$(POD_IP) $$(POD_IP) $(NOBODY)"},
                ],
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "given", "mountPath": "/given", "readOnly": True},
                ],
                "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
                "securityContext": {
                    "runAsUser": 1234,
                    "runAsGroup": 5678,
                    "readOnlyRootFilesystem": True,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


async def test_a_container_matches_its_pod_spec(pods: Pods, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("from the node")
    running = await pods.run(demanding_spec(given))
    (address,) = running.pod_ips
    main = await running.start(running.pod.spec.containers[0])
    shown = {
        "hostname": "front",
        "cat /etc/hostname": "front",
        "tail -n 1 /etc/hosts": f"{address}\tfront",
        'echo "$GREETING"': f"{address} $(POD_IP) $(NOBODY)",
        "pwd": "/scratch",
        "id -u; id -g": "1234\n5678",
        "id -G": "5678 2000 4000",
        "cat /given/file": "from the node",
        "echo mine > /scratch/written; cat /scratch/written": "mine",
        "stat -c %g /scratch/written": "2000",
        "touch /given/x": "touch: /given/x: Read-only file system",
        "touch /x": "touch: /x: Read-only file system",
        "grep -E 'CapEff|NoNewPrivs' /proc/self/status": "CapEff:\t0000000000000000\nNoNewPrivs:\t1",
        "cat /proc/sys/net/ipv4/ip_unprivileged_port_start": "81",
        "cat /proc/timer_list": "",
        "cat /proc/1/comm": "sleep",
    }
    assert {command: await running.shell(main, command) for command in shown} == shown
    scratch = running.node.state_dir / "pods" / running.pod.metadata.uid / "volumes/kubernetes.io~empty-dir/scratch"
    assert (scratch / "written").read_text() == "mine\n"


async def test_limits_are_set_in_the_pod_cgroup_which_is_removed_with_the_pod(pods: Pods) -> None:
    limits = {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    running = await pods.run(
        {"containers": [{"name": "main", "image": BUSYBOX, "command": SLEEP, "resources": limits}]}
    )
    main = await running.start(running.pod.spec.containers[0])
    below = pod_cgroup(running.node, running.pod).relative_to("/")
    files = {
        "cpu.shares": "102",
        "cpu.cfs_quota_us": "50000",
        "cpu.max": "50000 100000",
        "memory.limit_in_bytes": str(64 << 20),
        "memory.max": str(64 << 20),
    }
    found = {
        name: path.read_text().strip()
        for hierarchy in HIERARCHIES
        for name in files
        if (path := hierarchy / below / main / name).exists()
    }
    assert found
    assert found == {name: files[name] for name in found}
    await pods.remove()
    assert not [hierarchy / below for hierarchy in HIERARCHIES if (hierarchy / below).exists()]
    assert not running.node.state_dir.joinpath("pods", running.pod.metadata.uid).exists()


async def test_container_output_is_logged_at_the_kubelets_path(pods: Pods) -> None:
    running = await pods.run(
        {"containers": [{"name": "main", "image": BUSYBOX, "command": ["sh", "-c", "echo said; sleep 1000"]}]}
    )
    main = await running.start(running.pod.spec.containers[0])
    status = (await pods.client.container_status(main)).container
    log = running.node.log_dir / f"default_web_{running.pod.metadata.uid}" / "main" / "0.log"
    assert Path(status.log_path) == log
    async with asyncio.timeout(60):
        while not log.read_text():  # noqa: ASYNC110 - the runtime writes it, and tells nobody
            await asyncio.sleep(0.02)
    assert log.read_text().split(" ", 3)[1:] == ["stdout", "F", "said\n"]


async def test_containers_see_their_own_processes_and_an_ephemeral_container_those_of_its_target(pods: Pods) -> None:
    """Row 55: namespace mode TARGET."""
    running = await pods.run(
        {
            "containers": [
                {"name": "main", "image": BUSYBOX, "command": ["sleep", "1001"]},
                {"name": "other", "image": USER_1000, "command": ["sleep", "1002"]},
            ],
            "ephemeralContainers": [
                {"name": "debug", "image": BUSYBOX, "command": ["sleep", "1003"], "targetContainerName": "main"}
            ],
        }
    )
    processes = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 100[0-9]' | sort"
    main, other = [await running.start(container) for container in running.pod.spec.containers]
    debug = await running.start(running.pod.spec.ephemeral_containers[0], kind="ephemeral_container", target_id=main)
    assert await running.shell(other, processes) == "sleep 1002"
    assert await running.shell(debug, processes) == "sleep 1001\nsleep 1003"
    assert await running.shell(other, "id -u") == "1000"


async def test_containers_of_a_pod_with_shared_processes_see_all_processes(pods: Pods) -> None:
    containers = [{"name": name, "image": BUSYBOX, "command": SLEEP} for name in ("one", "two")]
    running = await pods.run({"shareProcessNamespace": True, "containers": containers})
    one, _ = [await running.start(container) for container in running.pod.spec.containers]
    assert await running.shell(one, "cat /proc/[0-9]*/comm | grep -c sleep") == "2"
    assert await running.shell(one, "cat /proc/1/comm") == "pause"


async def test_a_host_network_pod_has_the_nodes_interfaces_host_name_and_hosts_file(pods: Pods) -> None:
    running = await pods.run(
        {"hostNetwork": True, "containers": [{"name": "main", "image": BUSYBOX, "command": SLEEP}]}
    )
    main = await running.start(running.pod.spec.containers[0])
    assert set((await running.shell(main, "ls /sys/class/net")).split()) >= {"lo"}
    assert await running.shell(main, "readlink /proc/self/ns/net") == NETWORK
    assert (await running.shell(main, "cat /etc/hosts")).endswith(HOSTS.strip())
