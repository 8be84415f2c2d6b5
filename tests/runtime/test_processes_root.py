# ruff: noqa: ASYNC240 - a look at a file is what these tests are about
"""Processes of the embedded runtime with mount namespaces of their own.

Holds: The embedded runtime refuses with one sentence any request that it cannot fulfil.
"""

import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from syncpod.kernel import libc
from syncpod.kernel.tree_removal import StillMounted, remove_tree
from syncpod.runtime.port import Mount, StartFailed, User
from syncpod.runtime.processes.records import Level
from syncpod.runtime.root import layers
from tests.runtime.supervised_processes import WITH_OWN_ROOT, Machine, each_machine, machine_at

pytestmark = pytest.mark.skipif(not WITH_OWN_ROOT, reason="mount namespaces are closed to this user")
as_root = pytest.mark.skipif(
    Level.NAMESPACES not in WITH_OWN_ROOT, reason="only root may run a process as another user"
)


machine = each_machine(*WITH_OWN_ROOT)


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine_at(Level.NAMESPACES, tmp_path) as made:
        yield made


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    (made / "file").write_text("from outside\n")
    return made


async def output(machine: Machine, script: str, **more: Any) -> list[str]:
    _, log = await machine.run("sh", "-c", script, **more)
    return [line.split(" ", 2)[2] for line in log]


async def test_a_container_has_the_hosts_programs_and_its_own_tmp_and_run(machine: Machine) -> None:
    (machine.directory / "seen").touch()
    listed = await output(
        machine, f"ls -A /tmp; ls -A /run; stat -c %a /tmp /run; ls {machine.directory}/seen 2>&1; sh -c pwd"
    )
    assert listed[:2] == ["1777", "755"]
    assert listed[-1] == "/"


async def test_files_that_a_container_writes_are_private(machine: Machine) -> None:
    mark = "written-by-a-test-of-private-layers"
    places = [f"/usr/{mark}", f"/tmp/{mark}", f"/{mark}"]
    script = "; ".join(f"echo x > {place} && cat {place}" for place in places)
    assert (await output(machine, script))[-len(places) :] == ["x"] * len(places)
    assert not any(os.path.lexists(place) for place in places)


@pytest.mark.parametrize("level", WITH_OWN_ROOT, ids=lambda level: level.value)
async def test_files_beside_the_runtimes_state_are_private(level: Level, volume: Path) -> None:
    """`/var` and `/home` are where the state is, and where pods mount their volumes."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as state:
        containers = Path(state, "containers")
        (containers / "one").mkdir(parents=True)
        Path(state, "seen").touch()
        async with machine_at(level, containers / "one") as machine:
            places = ["/var/written-by-a-test", f"{state}/written-by-a-test"]
            if os.geteuid() == 0:  # another user may not write there, and runs as itself
                places.append("/var/lib/written-by-a-test")
            script = (
                f"cat /var/www/of-a-test/file; ls {state}; stat -c %a /var/tmp; "
                f"touch {' '.join(places)} && ls {' '.join(places)} | wc -l"
            )
            seen = await output(machine, script, mounts=(Mount("/var/www/of-a-test", str(volume)),))
        assert seen == ["from outside", "seen", "1777", str(len(places))]
        assert not any(os.path.lexists(place) for place in [*places, "/var/www/of-a-test"])


@pytest.mark.parametrize("level", WITH_OWN_ROOT, ids=lambda level: level.value)
@pytest.mark.parametrize("way", [".local", "link"])
async def test_files_in_parents_of_the_runtimes_state_are_the_hosts_and_writes_stay_private(
    level: Level, way: str
) -> None:
    """For example a home directory: changes of its files, and replacements of them, are private to the container."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home, tempfile.TemporaryDirectory(dir="/var/tmp") as beside:
        Path(beside, "link").symlink_to(Path(home, ".local"))
        containers = Path(home if way == ".local" else beside, way, "containers")
        Path(home, ".local").mkdir()
        (containers / "one").mkdir(parents=True)
        (containers / "one" / "secret").touch()
        Path(home, ".local").chmod(0o710)
        for name in ("profile", "removed", "edited"):
            Path(home, name).write_text("of the host\n")
        async with machine_at(level, containers / "one") as machine:
            script = (
                f"cd {home}; echo more >> profile; rm removed; sed -i s/host/pod/ edited; mv .local moved; ls -A; "
                "cat profile edited; stat -c %a moved; ls -A moved; cut -d' ' -f5 /proc/self/mountinfo | grep -c ^$PWD"
            )
            seen = await output(machine, script)
        *seen, mounts = seen
        assert seen == ["edited", "moved", "profile", "of the host", "more", "of the pod", "710"]
        assert int(mounts) < 3  # none for each file; the directory itself is one while somebody mounts beside it
        assert {path.read_text() for path in Path(home).iterdir() if path.is_file()} == {"of the host\n"}


@pytest.mark.parametrize("level", WITH_OWN_ROOT, ids=lambda level: level.value)
async def test_files_beside_a_mount_are_the_hosts_and_read_only(level: Level, tmp_path: Path) -> None:
    """Such a directory is not a lower layer in a user namespace; this one has a file too large to be copied, too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        mounted = Path(place, "mounted")
        mounted.mkdir()
        for name in ("small", "large", "mounted/file"):
            Path(place, name).write_text("of the host\n")
        os.truncate(Path(place, "large"), 2 << 20)
        (tmp_path / "source").mkdir()
        (tmp_path / "source" / "file").write_text("of the mount\n")
        try:
            libc.bind_recursively(str(tmp_path / "source"), str(mounted))
        except PermissionError:
            pytest.skip("only root may mount")
        try:
            async with machine_at(level, tmp_path) as machine:
                script = (
                    f"cd {place}; echo more >> small; rm small; ls; (echo more >> large) 2>/dev/null; "
                    "echo more >> mounted/file; cat mounted/file"
                )
                seen = await output(machine, script)
        finally:
            libc.unmount(str(mounted), libc.MNT_DETACH)
        assert seen == ["large", "mounted", "of the mount", "more"]
        assert (Path(place, "small").read_text(), Path(place, "large").stat().st_size) == ("of the host\n", 2 << 20)
        assert (tmp_path / "source" / "file").read_text() == "of the mount\n"


async def test_devices_work_and_new_ones_are_not_made_on_the_host(machine: Machine, volume: Path) -> None:
    mounts = (Mount("/dev/termination-log", str(volume / "file")),)
    script = (
        "echo bye > /dev/termination-log; echo x > /dev/null; head -c 3 /dev/zero | wc -c; "
        "head -c 2 /dev/urandom | wc -c;"
        " echo > /dev/made-by-a-test; test -d /dev/pts && test -d /dev/shm && echo mounts; readlink /dev/fd"
    )
    assert await output(machine, script, mounts=mounts) == ["3", "2", "mounts", "/proc/self/fd"]
    assert (volume / "file").read_text() == "bye\n"
    assert not os.path.lexists("/dev/termination-log")
    assert not os.path.lexists("/dev/made-by-a-test")


async def test_a_terminal_can_be_opened_inside(machine: Machine) -> None:
    script = 'python3 -c "import os, pty; m, s = pty.openpty(); print(os.ttyname(s))" || echo no'
    [line] = [line for line in await output(machine, script) if line.startswith("/dev/") and "pts/" in line]
    assert line


async def test_files_and_directories_are_mounted_where_the_pod_wants_them(machine: Machine, volume: Path) -> None:
    (volume / "hosts").write_text("127.9.9.9 pod\n")
    mounts = (
        Mount("/etc/hosts", str(volume / "hosts")),
        Mount("/etc/resolv.conf", str(volume / "hosts")),
        Mount("/data", str(volume)),
        Mount("/data/deeper/still", str(volume)),
        Mount("/var/run/secrets/token", str(volume / "file"), read_only=True),
    )
    script = (
        "cat /etc/hosts /etc/resolv.conf; cat /data/file /data/deeper/still/file /var/run/secrets/token; "
        "echo more >> /data/file; echo no > /var/run/secrets/token; echo new > /etc/made-here"
    )
    lines = await output(machine, script, mounts=mounts)
    assert lines[:5] == ["127.9.9.9 pod"] * 2 + ["from outside"] * 3
    assert "Read-only file system" in lines[-1]
    assert (volume / "file").read_text() == "from outside\nmore\n"
    assert "127.9.9.9" not in Path("/etc/hosts").read_text()
    assert not Path("/etc/made-here").exists()
    assert not Path("/data").exists()


async def test_read_only_mounts_and_root_cannot_be_written_but_volumes_can(machine: Machine, volume: Path) -> None:
    mounts = (
        Mount("/once", str(volume), read_only=True),
        Mount("/all", str(volume), recursive_read_only=True),
        Mount("/usr/volume", str(volume)),
    )
    places = ("/once/x", "/all/x", "/x", "/usr/x", "/etc/x", "/tmp/x", "/var/x", "/usr/volume/x")
    script = "; ".join(f"touch {place} 2>/dev/null && echo {place}" for place in places)
    assert await output(machine, script, mounts=mounts, read_only_root=True) == ["/usr/volume/x"]


async def test_a_mount_through_a_symlink_stays_inside_the_root(machine: Machine, volume: Path) -> None:
    mounts = [Mount("/var/run/here", str(volume))]
    if os.geteuid() == 0:  # nobody else may make a directory in /usr/bin
        mounts.append(Mount("/bin/volume", str(volume)))
    files = ("/run/here/file", "/usr/bin/volume/file")[: len(mounts)]
    assert await output(machine, f"cat {' '.join(files)}", mounts=tuple(mounts)) == ["from outside"] * len(mounts)


@pytest.mark.parametrize("path", ["/", "relative", "/..", ""])
async def test_a_mount_over_the_root_or_nowhere_is_refused(machine: Machine, volume: Path, path: str) -> None:
    with pytest.raises(StartFailed, match=r'must be an absolute path other than "/"'):
        await machine.start("true", mounts=(Mount(path, str(volume)),))


async def test_mounts_create_no_files_on_the_host(machine: Machine, volume: Path) -> None:
    with pytest.raises(StartFailed, match=r"/sys/new: would have to be made on the host, whose /sys"):
        await machine.start("true", mounts=(Mount("/sys/new", str(volume)),))


@pytest.mark.parametrize("path", ["/proc", "/proc/sys/kernel", "/proc/new", "/usr/../proc/self"])
async def test_proc_is_not_hidden_by_a_mount(machine: Machine, volume: Path, path: str) -> None:
    with pytest.raises(StartFailed, match=f"^mount {path}: /proc is the kernel's: nothing may be mounted over or in"):
        await machine.start("true", mounts=(Mount(path, str(volume)),))


async def test_a_file_may_be_mounted_in_proc_and_proc_on_itself(machine: Machine, volume: Path) -> None:
    mounts = (Mount("/proc/uptime", str(volume / "file")), Mount("/proc", "/proc"))
    assert await output(machine, "cat /proc/uptime", mounts=mounts) == ["from outside"]


async def test_nested_mounts_work_in_any_order(machine: Machine, tmp_path: Path) -> None:
    for name in ("outer", "inner", "last"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    mounts = (
        Mount("/data/x", str(tmp_path / "inner")),
        Mount("/data//", str(tmp_path / "outer")),
        Mount("/same", str(tmp_path / "outer")),
        Mount("/same", str(tmp_path / "last")),
    )
    assert await output(machine, "cat /data/file /data/x/file /same/file", mounts=mounts) == ["outer", "inner", "last"]


async def test_a_read_only_root_may_have_volumes_over_existing_directories(machine: Machine, volume: Path) -> None:
    mounts = (Mount("/etc", str(volume)), Mount("/mnt", str(volume)))
    script = "cat /etc/file /mnt/file; ls /etc; touch /mnt/new && echo written"
    seen = await output(machine, script, mounts=mounts, read_only_root=True, hostname="web-0")
    assert seen == ["from outside", "from outside", "file", "written"]


async def test_the_source_of_a_mount_must_exist(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"mount .*/gone: No such file or directory"):
        await machine.start("true", mounts=(Mount("/data", str(tmp_path / "gone")),))


async def test_a_file_is_not_mounted_over_a_directory(machine: Machine, volume: Path) -> None:
    with pytest.raises(StartFailed, match=r"mount /usr: a file cannot be mounted over a directory"):
        await machine.start("true", mounts=(Mount("/usr", str(volume / "file")),))


async def test_a_container_has_the_pods_host_name_and_the_machine_keeps_its_own(machine: Machine) -> None:
    before = os.uname().nodename
    assert await output(machine, "hostname || cat /proc/sys/kernel/hostname", hostname="web-0") == ["web-0"]
    assert os.uname().nodename == before


async def test_etc_hostname_has_the_pods_host_name(machine: Machine, volume: Path) -> None:
    script = "cat /etc/hostname; (echo mine > /etc/hostname) 2>/dev/null && cat /etc/hostname"
    assert await output(machine, script, hostname="web-0") == ["web-0", "mine"]
    assert await output(machine, script, name="frozen", hostname="web-1", read_only_root=True) == ["web-1"]
    mounts = (Mount("/etc/hostname", str(volume / "file")),)
    assert await output(machine, "cat /etc/hostname", name="given", hostname="web-2", mounts=mounts) == ["from outside"]
    assert Path("/etc/hostname").read_text().strip() not in {"web-0", "web-1", "mine"}


async def test_the_console_is_the_containers_own_terminal_or_missing(machine: Machine) -> None:
    assert await output(machine, "ls /dev/console 2>/dev/null || echo none") == ["none"]
    lines = await output(machine, "echo hello > /dev/console", name="terminal", terminal=True)
    assert [line.strip() for line in lines] == ["hello"]


async def test_a_missing_working_directory_is_made(machine: Machine) -> None:
    assert await output(machine, "pwd", working_directory="/srv/not/there") == ["/srv/not/there"]
    assert not Path("/srv/not").exists()


async def test_container_mounts_are_not_visible_on_the_machine(machine: Machine, volume: Path) -> None:
    process = await machine.start("sleep", "600", mounts=(Mount("/data", str(volume)),))
    assert str(machine.directory) in Path(f"/proc/{process.pid}/mountinfo").read_text()
    assert str(machine.directory) not in Path("/proc/self/mountinfo").read_text()


async def test_all_files_that_a_container_leaves_can_be_removed(machine: Machine, tmp_path: Path) -> None:
    script = (
        "rm -rf /usr/share/doc/[a-c]* 2>/dev/null; mkdir -p /usr/a/b; touch /usr/a/b/c; chmod 0 /usr/a/b; "
        "mkdir /tmp/z; chmod 0 /tmp/z"
    )
    await machine.run("sh", "-c", script)
    assert (machine.place() / layers.LAYERS).is_dir()
    remove_tree(machine.place())
    assert not (tmp_path / "c").exists()
    remove_tree(tmp_path / "c")


async def test_a_tree_deeper_than_any_stack_can_be_removed(machine: Machine) -> None:
    script = (
        'import os; os.chdir("/tmp"); [(os.mkdir("d"), os.chdir("d"), open("f", "w").close()) for _ in range(2500)]'
    )
    exited, _ = await machine.run("python3", "-c", script)
    assert exited.exit_code == 0
    place = machine.place()
    remove_tree(place)
    assert not place.exists()


def test_removal_handles_entries_with_its_own_temporary_names(tmp_path: Path) -> None:
    for name in ("full", ".removed-0", ".removed-1/.removed-0", "full/.removed-0", "full/b/c/.removed-1", "full/d/e/f"):
        (tmp_path / "gone" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "gone" / name / "file").touch()
    remove_tree(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


@as_root
def test_removal_leaves_mounts_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    mounted = tmp_path / "gone" / "a" / "b"
    mounted.mkdir(parents=True)
    libc.bind_recursively(str(tmp_path / "kept"), str(mounted))
    try:
        with pytest.raises(StillMounted):
            remove_tree(tmp_path / "gone")
    finally:
        libc.unmount(str(mounted), libc.MNT_DETACH)
    assert (tmp_path / "kept" / "file").exists()
    remove_tree(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()


def test_removal_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "gone")
    assert (tmp_path / "kept" / "file").exists()


@as_root
async def test_a_container_runs_as_another_user(root: Machine) -> None:
    lines = await output(
        root, "id -u; id -g; id -G; echo via > /dev/stdout; touch /usr/no", user=User(1234, 1235, (7, 8))
    )
    assert lines[:4] == ["1234", "1235", "1235 7 8", "via"]
    assert "Permission denied" in lines[4]


@as_root
async def test_another_user_on_a_terminal_owns_it(root: Machine) -> None:
    lines = await output(root, "echo hello > $(tty) && tty", user=User(1234, 1235), terminal=True)
    assert lines[0].startswith("hello")


@as_root
async def test_a_command_runs_as_the_same_user(root: Machine) -> None:
    process = await root.start("sleep", "600", user=User(1234, 1235, (7,)), no_new_privileges=True)
    command = await process.execute(("sh", "-c", "id -u; id -G; grep NoNewPrivs /proc/self/status"))
    read = b"".join([data async for _, data in command.output()])
    await command.close()
    assert read == b"1234\n1235 7\nNoNewPrivs:\t1\n"


def capabilities_in(status: list[str]) -> dict[str, int]:
    return {line.split(":")[0]: int(line.split()[1], 16) for line in status if line.startswith("Cap")}


@as_root
@pytest.mark.parametrize(
    ("added", "dropped", "expected"),
    [
        ((), ("ALL",), 0),
        (("CHOWN",), ("ALL",), 1),
        (("CAP_KILL", "NET_BIND_SERVICE"), ("ALL", "CAP_KILL"), 1 << 10),
    ],
)
async def test_a_container_has_the_given_capabilities(
    root: Machine, added: tuple[str, ...], dropped: tuple[str, ...], expected: int
) -> None:
    status = await output(root, "cat /proc/self/status", added_capabilities=added, dropped_capabilities=dropped)
    held = capabilities_in(status)
    assert (held["CapEff"], held["CapPrm"], held["CapBnd"], held["CapAmb"]) == (expected, expected, expected, 0)


@as_root
async def test_a_capability_can_be_dropped(root: Machine) -> None:
    held = capabilities_in(await output(root, "cat /proc/self/status", dropped_capabilities=("CAP_CHOWN",)))
    assert held["CapEff"] & 1 == 0
    assert held["CapEff"] >> 1 & 0b11 == 0b11


async def test_no_new_privileges_and_the_oom_score_are_set(machine: Machine) -> None:
    lines = await output(
        machine,
        "cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status",
        no_new_privileges=True,
        oom_score_adj=700,
    )
    assert lines == ["700", "NoNewPrivs:\t1"]


async def test_an_oom_score_that_may_not_be_lowered_is_kept(machine: Machine) -> None:
    [line] = await output(machine, "cat /proc/self/oom_score_adj", oom_score_adj=-900)
    assert int(line) in {-900, int(Path("/proc/self/oom_score_adj").read_text())}


async def test_layers_are_not_readable_by_others(machine: Machine) -> None:
    await machine.run("true")
    assert stat.S_IMODE((machine.place() / layers.LAYERS).stat().st_mode) == 0o700
