"""A server without mount namespaces: containers share the machine's files, and mounts are links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.cli.machine.runtime_process import weaknesses
from tests.runtime.real_pods import Pod, is_alive
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded

CLOSED = (
    *("unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c"),
    'cd /proc/sys/user && echo 0 > max_mnt_namespaces && echo 0 > max_user_namespaces && cd "$OLDPWD" && exec "$@"',
    "sh",
)
"""The command prefix of a user namespace in which no further namespaces are permitted, for root and for others."""


def can_be_closed() -> bool:
    return shutil.which("unshare") is not None and subprocess.run((*CLOSED, "true"), check=False).returncode == 0


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    if not can_be_closed():
        pytest.skip("needs unshare, and user namespaces to close them in")
    with Embedded.launch(within=CLOSED) as running:
        yield running


async def refused(pod: Pod, config: cri.ContainerConfig) -> str:
    """Assert that a container is refused, and return the message."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await pod.create(config)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    return caught.value.details() or ""


async def test_the_server_reports_what_containers_share(server: Embedded, calls: BareCri) -> None:
    status = await calls.runtime.Status(cri.StatusRequest(verbose=True))
    assert json.loads(status.info["config"])["isolation"] == "plain"
    assert not status.runtime_handlers[0].features.recursive_read_only_mounts
    assert "containers share the machine's files, processes, network and users" in server.log.read_text()


def test_missing_features_are_named_in_the_log_and_by_up(server: Embedded) -> None:
    told = weaknesses(server.endpoint)
    assert told[0] == (
        "containers have no mounts of their own here (the kernel: No space left on device): they share the machine's "
        "files, its /tmp and its host name, a volume is a symbolic link on the machine, and images with files, "
        "readOnlyRootFilesystem, recursive read-only mounts and dnsConfig are refused"
    )
    assert all(weakness in server.log.read_text() for weakness in told)


async def test_a_volume_is_a_link_removed_with_the_last_container(server: Embedded, pod: Pod, tmp_path: Path) -> None:
    wanted, volume = tmp_path / "data", tmp_path / "volume"
    config = pod.container("sh", "-c", f"echo first > {wanted}/file; exec sleep 600")
    config.mounts.add(container_path=str(wanted), host_path=str(volume))
    first = await pod.create(config)
    assert not volume.exists(), "it is made at the start"
    await pod.start(first)
    assert wanted.readlink() == volume
    server.restart()
    config.metadata.name = "second"
    config.command[:] = ["sh", "-c", f"until cat {wanted}/file; do sleep 0.05; done"]
    config.log_path = "second.log"
    second = await pod.create(config)
    await pod.start(second)
    assert (await pod.ended(second)).exit_code == 0
    assert (tmp_path / "logs" / "second.log").read_text().endswith("stdout F first\n")
    assert wanted.readlink() == volume
    pid = await pod.pid(first)
    await pod.stop(first, 0)
    assert not is_alive(pid)
    assert not wanted.is_symlink()
    assert (volume / "file").read_text() == "first\n"


async def test_a_mount_that_cannot_be_a_link_is_refused_at_creation(pod: Pod, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("somebody's")
    config = pod.container("true")
    config.mounts.add(container_path=str(tmp_path / "free"), host_path=str(tmp_path / "volume"))
    config.mounts.add(container_path=str(taken), host_path=str(tmp_path / "volume"))
    assert await refused(pod, config) == (
        f"config.mounts[1]: mount {taken}: without mount namespaces a mount is a symbolic link, "
        "and something else is there on this machine"
    )
    assert taken.read_text() == "somebody's"
    assert not (tmp_path / "volume").exists()
    del config.mounts[1]
    assert await pod.create(config), "its name is free"


async def test_a_read_only_root_and_a_custom_resolver_are_refused(pod: Pod, calls: BareCri) -> None:
    config = pod.container("true")
    config.linux.security_context.readonly_rootfs = True
    assert "readonly_rootfs: needs mount namespaces" in await refused(pod, config)
    other = calls.sandbox_config("resolver")
    other.dns_config.servers.append("192.0.2.1")
    with pytest.raises(grpc.aio.AioRpcError, match=r"config\.dns_config: pods have the machine's resolver"):
        await calls.runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=other))


async def test_a_command_runs_in_the_containers_mount_namespace(pod: Pod) -> None:
    container = await pod.started("sleep", "1000")
    answer = await pod.calls.ExecSync(
        cri.ExecSyncRequest(
            container_id=container, cmd=["readlink", "/proc/self/ns/mnt", f"/proc/{await pod.pid(container)}/ns/mnt"]
        )
    )
    assert answer.exit_code == 0
    own, containers = answer.stdout.decode().splitlines()
    assert own == containers == os.readlink("/proc/self/ns/mnt")  # noqa: PTH115
