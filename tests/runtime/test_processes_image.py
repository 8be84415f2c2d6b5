"""Processes whose root directory is an image's files, as root and in a user namespace.

Holds: The files of a loaded image are in one directory, which is complete and never changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncpod.runtime.images.inventory import ImageStore
from syncpod.runtime.load import load
from syncpod.runtime.port import Mount, StartFailed
from tests.runtime.image_files import Layout, entry, layer, symlink, write_tar
from tests.runtime.supervised_processes import WITH_OWN_ROOT, Machine, each_machine
from tests.runtimes.images import images
from tests.runtimes.require import Missing, do_without

pytestmark = pytest.mark.skipif(not WITH_OWN_ROOT, reason="mount namespaces are closed to this user")
BIN = (("PATH", "/bin"),)


machine = each_machine(*WITH_OWN_ROOT)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The files of an image: busybox, and links at the paths of the kernel's directories and the resolver."""
    try:
        busybox = images()[1].layer
    except Missing as missing:
        do_without("embedded", str(missing))
    traps = layer(
        symlink("proc", "/etc"),
        symlink("sys", "../../../.."),
        symlink("dev", str(tmp_path)),
        symlink("etc/resolv.conf", "/private/resolv.conf"),
        entry("private"),
        entry("hello", b"hello\n"),
    )
    state = tmp_path / "state"
    list(load(state, write_tar(tmp_path / "image.tar", Layout((busybox, traps)).files())))
    (image,) = ImageStore(state / "images")
    assert image.content is not None
    return str(state / "images/roots" / image.content.root)


async def output(machine: Machine, script: str, **more: Any) -> list[str]:
    _, log = await machine.run("sh", "-c", script, environment=BIN, **more)
    return [line.split(" ", 2)[2] for line in log]


async def test_a_container_sees_the_images_files_and_none_of_the_machines(
    machine: Machine, root: str, tmp_path: Path
) -> None:
    seen = f"ls -d /usr/lib /proc/self /dev/null /sys/kernel {tmp_path} 2> /dev/null"
    script = f"cat /hello; {seen}; echo x > /hello; cat /hello"
    said = await output(machine, script, root=root)
    assert said[0] == "hello"
    assert {"/proc/self", "/dev/null", "/sys/kernel"} <= set(said)
    assert "/usr/lib" not in said
    assert str(tmp_path) not in said
    assert said[-1] == "x"
    assert (Path(root) / "hello").read_text() == "hello\n"


async def test_writes_of_a_container_stay_private_to_it(machine: Machine, root: str) -> None:
    hosts = Path("/etc/hosts").read_bytes()  # noqa: ASYNC240
    script = (
        "echo 1 >> /etc/hosts; echo 1 >> /etc/resolv.conf; tail -n 1 /etc/hosts /private/resolv.conf; cat /etc/hostname"
    )
    said = await output(machine, script, root=root, hostname="web")
    assert said.count("1") == 2
    assert said[-1] == "web"
    assert Path("/etc/hosts").read_bytes() == hosts  # noqa: ASYNC240


async def test_volumes_are_mounted_in_an_image_root_which_may_be_read_only(
    machine: Machine, root: str, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("from outside\n")
    script = (
        "exec 2>&1; cat /data/deep/file; touch /data/deep/new; touch /new; touch /etc/hosts; echo x > /dev/null; pwd"
    )
    said = await output(
        machine,
        script,
        root=root,
        mounts=(Mount("/data/deep", str(volume)),),
        read_only_root=True,
        working_directory="/made/for/it",
    )
    assert said[0] == "from outside"
    assert said[-1] == "/made/for/it"
    assert [line for line in said if "Read-only" in line] == [
        "touch: /new: Read-only file system",
        "touch: /etc/hosts: Read-only file system",
    ]
    assert (volume / "new").exists()


async def test_commands_and_terminals_work_in_an_image_root(machine: Machine, root: str) -> None:
    process = await machine.start("sleep", "600", environment=BIN, root=root)
    command = await process.execute(("sh", "-c", "tty; cat /hello"), terminal=True)
    said = b"".join([data async for _, data in command.output()])
    await command.close()
    assert said.startswith(b"/dev/pts/")
    assert said.endswith(b"hello\r\n")


async def test_a_program_missing_in_the_image_is_not_taken_from_the_machine(machine: Machine, root: str) -> None:
    with pytest.raises(StartFailed, match='exec: "python3": executable file not found in \\$PATH'):
        await machine.start("python3", environment=BIN, root=root)
