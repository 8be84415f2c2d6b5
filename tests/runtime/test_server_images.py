"""Containers of loaded images on a real server: they have the image's files, programs and users.

Holds: The files of a loaded image are in one directory, which is complete and never changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grpc.aio
import pytest

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime.processes.process_spec import check_container
from syncpod.runtime.refusals import Refusal
from tests.agent.waiting import until, until_asked
from tests.runtime.image_files import Layout, entry, layer, symlink, write_tar
from tests.runtime.real_pods import Pod
from tests.runtime.test_server_refusals import PLAIN
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import ROOT, Embedded
from tests.runtimes.images import Image, images
from tests.runtimes.require import Missing, do_without

NAME = "example.test/app:1"
WHO = b"root:x:0:0::/root:/bin/sh\napp:x:1234:1235::/home/app:/bin/sh\n"
GROUPS = b"root:x:0:\napp:x:1235:\nextra:x:77:root,app\n"
SAYS = "echo $0 $1 $NAME $HOME; id -u; id -g; id -G; pwd; cat /hello /etc/hosts /etc/hostname; ls /; touch /written"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has an image's users")


@pytest.fixture(scope="module")
def busybox() -> Image:
    try:
        return images()[1]
    except Missing as missing:
        do_without("embedded", str(missing))


def load(server: Embedded, directory: Path, busybox: Image, **config: object) -> None:
    """Load an image of busybox with its own users into the state of a running server."""
    more = layer(
        entry("etc/passwd", WHO),
        entry("etc/group", GROUPS),
        entry("hello", b"hello\n"),
        entry("home/app", uid=1234),
        symlink("proc", "/etc"),  # A trap: what is mounted there must not land on the machine's.
    )
    file = write_tar(directory / "image.tar", Layout((busybox.layer, more), config, NAME).files())
    command = [sys.executable, "-m", "syncpod.runtime.load", "--state-dir", str(server.state_dir), str(file)]
    assert subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.endswith(f"{NAME}\n")


def container(pod: Pod, *command: str) -> cri.ContainerConfig:
    config = pod.container(*command)
    config.image.image = NAME
    config.log_path = "main.log"
    return config


def logged(tmp_path: Path) -> list[str]:
    lines = (tmp_path / "logs/main.log").read_text().splitlines()
    return [line.split(" ", 3)[3] for line in lines]


@as_root
async def test_a_container_has_its_images_files_and_configuration(
    server: Embedded, calls: BareCri, pod: Pod, tmp_path: Path, busybox: Image
) -> None:
    load(
        server,
        tmp_path,
        busybox,
        Env=["PATH=/bin", "NAME=image"],
        Entrypoint=["sh", "-c", f"{SAYS}; trap 'exit 9' QUIT; while :; do sleep 600 & wait $!; done"],
        Cmd=["one", "two"],
        User="app",
        WorkingDir="/work/dir",
        StopSignal="SIGQUIT",
    )
    status = (await calls.images.ImageStatus(cri.ImageStatusRequest(image=cri.ImageSpec(image=NAME)))).image
    assert (status.username, list(status.repo_tags)) == ("app", [NAME])
    made = await pod.create(container(pod))
    await pod.start(made)
    await until(lambda: "touch: /written: Permission denied" in "\n".join(logged(tmp_path)))
    said = logged(tmp_path)
    assert said[:6] == ["one two image /home/app", "1234", "1235", "1235 77", "/work/dir", "hello"]
    assert {"bin", "dev", "etc", "hello", "proc", "sys", "work"} <= set(said)
    told = await pod.status(made)
    assert (told.user.linux.uid, told.image_id, told.stop_signal) == (1234, status.id, cri.SIGNAL_SIGQUIT)
    ran = await pod.calls.ExecSync(
        cri.ExecSyncRequest(container_id=made, cmd=["sh", "-c", "id -un; cat /proc/1/comm > /dev/null; ls /nothing"])
    )
    assert (ran.stdout, ran.exit_code) == (b"app\n", 1)
    server.restart()
    await pod.stop(made, 20)
    assert (await pod.status(made)).exit_code == 9


@as_root
async def test_container_settings_override_the_images(
    server: Embedded, pod: Pod, tmp_path: Path, busybox: Image
) -> None:
    load(server, tmp_path, busybox, Env=["NAME=image"], Entrypoint=["false"], Cmd=["x"], User="app")
    volume = tmp_path / "volume"
    volume.mkdir()
    config = container(pod, "sh", "-c", f"{SAYS}; touch /data/file /etc/passwd; ls -l /etc/resolv.conf; id -un", "zero")
    config.args.append("first")
    config.envs.add(key="NAME", value=b"pod")
    config.working_dir = "/home"
    config.linux.security_context.run_as_user.value = 0
    config.linux.security_context.readonly_rootfs = True
    config.mounts.add(container_path="/data", host_path=str(volume))
    made = await pod.create(config)
    await pod.start(made)
    assert (await pod.ended(made)).exit_code == 0
    said = logged(tmp_path)
    assert said[:6] == ["zero first pod /root", "0", "0", "0 77", "/home", "hello"]
    assert "touch: /written: Read-only file system" in said
    assert "touch: /etc/passwd: Read-only file system" in said
    assert (volume / "file").exists()


async def test_an_images_files_are_kept_while_a_container_uses_them(
    server: Embedded, calls: BareCri, pod: Pod, tmp_path: Path, busybox: Image
) -> None:
    load(server, tmp_path, busybox)
    roots = server.state_dir / "images" / "roots"
    made = await pod.create(container(pod, "sh", "-c", "echo private > /hello; exec sleep 600"))
    await pod.start(made)
    await calls.images.RemoveImage(cri.RemoveImageRequest(image=cri.ImageSpec(image=NAME)))
    server.restart()

    async def reads() -> bool:
        request = cri.ExecSyncRequest(container_id=made, cmd=["cat", "/hello"])
        return (await pod.calls.ExecSync(request, wait_for_ready=True)).stdout == b"private\n"

    await until_asked(reads)
    assert [(each / "hello").read_text() for each in roots.iterdir() if each.is_dir()] == ["hello\n"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await pod.create(container(pod, "true"))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    await pod.calls.RemoveContainer(cri.RemoveContainerRequest(container_id=made))
    await until(lambda: not [each for each in roots.iterdir() if each.is_dir()])


def test_without_mount_namespaces_an_image_with_files_is_refused() -> None:
    config = cri.ContainerConfig(image=cri.ImageSpec(image=NAME))
    with pytest.raises(Refusal, match=r"^config\.image: it was loaded and has files of its own, which need mount"):
        check_container(config, PLAIN, privileged_sandbox=False, of_own_files=True, path="config")
