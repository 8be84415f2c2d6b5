# ruff: noqa: ASYNC240 - a look at a file is what these tests are about
"""Processes of the embedded runtime if mount namespaces are not permitted: a mount is a symbolic link.

Holds: The embedded runtime refuses with one sentence any request that it cannot fulfil.
"""

import os
from pathlib import Path

import pytest

from syncpod.runtime.port import Mount, StartFailed
from syncpod.runtime.processes.links import Links
from syncpod.runtime.processes.records import Level
from tests.runtime.supervised_processes import Machine, each_machine

machine = each_machine(Level.PLAIN)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    (made / "file").write_text("hello\n")
    return made


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    """The path at which the pod mounts its volume."""
    return tmp_path / "data"


async def test_a_mount_is_a_symlink_while_the_container_runs(machine: Machine, volume: Path, wanted: Path) -> None:
    exited, log = await machine.run("cat", f"{wanted}/file", mounts=(Mount(str(wanted), str(volume)),))
    assert (exited.exit_code, log) == (0, ["stdout F hello"])
    assert not wanted.is_symlink()
    assert not any((machine.directory / "links").iterdir())


async def test_containers_share_a_link_that_the_last_one_removes(machine: Machine, volume: Path, wanted: Path) -> None:
    mounts = (Mount(str(wanted), str(volume)),)
    first = await machine.start("sleep", "600", name="first", mounts=mounts)
    second = await machine.start("sleep", "600", name="second", mounts=mounts)
    first.kill()
    await first.wait()
    assert wanted.readlink() == volume
    await machine.restart()
    assert await machine.processes.find(machine.place("first"))
    assert wanted.readlink() == volume
    found = await machine.found("second")
    assert found.pid == second.pid
    found.kill()
    await found.wait()
    assert not wanted.is_symlink()


async def test_a_mount_at_its_own_host_path_needs_no_link(machine: Machine, volume: Path) -> None:
    mount = Mount(str(volume), str(volume))
    exited, _ = await machine.run("cat", f"{volume}/file", mounts=(mount,))
    assert exited.exit_code == 0
    assert (volume / "file").exists()
    assert not volume.is_symlink()


async def test_an_existing_file_is_not_replaced_by_a_link(machine: Machine, volume: Path, wanted: Path) -> None:
    wanted.mkdir()
    mount = Mount(str(wanted), str(volume))
    sentence = f"mount {wanted}: without mount namespaces a mount is a symbolic link, and something else is there"
    assert (machine.processes.refusal(mount) or "").startswith(sentence)
    with pytest.raises(StartFailed, match=sentence):
        await machine.start("true", mounts=(mount,))
    assert wanted.is_dir()


async def test_a_foreign_link_is_not_removed(machine: Machine, volume: Path, wanted: Path) -> None:
    process = await machine.start("sleep", "600", mounts=(Mount(str(wanted), str(volume)),))
    wanted.unlink()
    wanted.symlink_to("/elsewhere")
    process.kill()
    await process.wait()
    assert wanted.is_symlink()


async def test_a_start_that_fails_leaves_no_link(machine: Machine, volume: Path, wanted: Path) -> None:
    with pytest.raises(StartFailed, match="not found"):
        await machine.start("nosuch", mounts=(Mount(str(wanted), str(volume)),))
    assert not wanted.is_symlink()


def test_mounts_of_etc_hosts_and_the_termination_log_use_the_machines_files(tmp_path: Path, volume: Path) -> None:
    links = Links(tmp_path / "links")
    mounts = tuple(Mount(path, str(volume / "file")) for path in ("/etc/hosts", "/dev/termination-log"))
    assert [links.refusal(mount) for mount in mounts] == [None, None]
    links.make("c", mounts)
    assert not os.path.islink("/etc/hosts")  # noqa: PTH114
    assert not (tmp_path / "links").exists()


def test_a_mount_that_a_link_cannot_replace_is_refused(tmp_path: Path, volume: Path) -> None:
    links = Links(tmp_path / "links")
    recursive = Mount(str(tmp_path / "data"), str(volume), recursive_read_only=True)
    assert "cannot be recursively read-only" in (links.refusal(recursive) or "")
    nowhere = Mount(str(tmp_path / "no" / "parent"), str(volume))
    assert "is not a directory that this user may write to" in (links.refusal(nowhere) or "")


@pytest.mark.parametrize("inner_first", [True, False])
def test_a_mount_inside_another_link_is_refused_in_either_order(
    tmp_path: Path, volume: Path, wanted: Path, inner_first: bool
) -> None:
    """It would be made in the volume that the outer one leads to, on the machine."""
    links = Links(tmp_path / "links")
    inner, outer = Mount(f"{wanted}/inner", str(tmp_path)), Mount(str(wanted), str(volume))
    if inner_first:
        assert f"{wanted} is not a directory that this user may write to" in (links.refusal(inner) or "")
    assert links.refusal(outer) is None
    links.make("c", (outer,))
    assert (links.refusal(inner) or "").endswith(f"and {wanted} is one: what is made in it is made in that volume")
    links.release("c")
    assert sorted(path.name for path in volume.iterdir()) == ["file"]


def test_a_link_claim_is_released_only_once(tmp_path: Path, volume: Path, wanted: Path) -> None:
    links = Links(tmp_path / "links")
    links.make("c", (Mount(str(wanted), str(volume)),))
    links.make("c", (Mount(str(wanted), str(volume)),))
    links.release("c")
    links.release("c")
    assert not wanted.is_symlink()
