"""A container's life for a user without root: a program that tests run as that user, with the standard library only."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from syncpod.kernel.tree_removal import remove_tree
from syncpod.runtime.port import Exited, Mount, ProcessSpec, StartFailed, User
from syncpod.runtime.processes.container_handle import ContainerHandle
from syncpod.runtime.processes.records import Level
from syncpod.runtime.processes.supervised import Supervised

ENVIRONMENT = (("PATH", os.environ["PATH"]),)


async def main(level: Level, directory: Path) -> None:
    if level is Level.USER_NAMESPACES and (await Supervised.probe(directory))[0] is not level:
        sys.stdout.write("user namespaces are closed to users here")
        sys.exit(77)
    processes = Supervised(level=level, links=directory / "links")
    place, volume, log = directory / "c", directory / "volume", directory / "log"
    place.mkdir()
    volume.mkdir()
    (volume / "file").write_text("volume\n")
    inside = "/data" if level is Level.USER_NAMESPACES else str(directory / "data")
    script = f"id -u; cat {inside}/file; echo more > {inside}/new; echo > /dev/null; touch /usr/private; sleep 600"
    spec = ProcessSpec(
        "c",
        ("sh", "-c", script),
        ENVIRONMENT,
        log_path=str(log),
        mounts=(Mount(inside, str(volume)),),
        user=User(os.getuid(), os.getgid()),
        oom_score_adj=-5,
    )
    process = await processes.start(spec, place)
    while not (volume / "new").exists():  # noqa: ASYNC110 - it is for the container to make it
        await asyncio.sleep(0.01)
    while log.read_text().count("\n") < 2:  # noqa: ASYNC110 - what the container says takes its own way there
        await asyncio.sleep(0.01)
    assert [line.split(" ", 3)[3] for line in log.read_text().splitlines()][:2] == [str(os.getuid()), "volume"]
    await processes.close()

    processes = Supervised(level=level, links=directory / "links")
    found = await processes.find(place)
    assert isinstance(found, ContainerHandle) and found.pid == process.pid
    command = await found.execute(("sh", "-c", f"cat {inside}/new; id -u; tty"), terminal=True)
    output = b"".join([data async for _, data in command.output()])
    assert output.startswith(b"more\r\n%d\r\n/dev/pts/" % os.getuid()), output
    assert await command.wait() == 0
    await command.close()
    assert found.usage() is not None
    found.kill()
    exited = await found.wait()
    assert (exited.exit_code, exited.reason) == (137, "Error"), exited
    assert isinstance(await processes.find(place), Exited)
    remove_tree(place)
    assert not any(os.path.lexists(path) for path in (place, inside))  # noqa: ASYNC240

    place.mkdir()
    try:
        await processes.start(ProcessSpec("c", ("true",), ENVIRONMENT, user=User(0, 0)), place)
    except StartFailed as failure:
        assert str(failure).startswith("cannot run as user 0, group 0: "), failure
    else:
        raise AssertionError("it ran as root")
    if level is Level.USER_NAMESPACES:
        await in_an_image(processes, directory)
    await processes.close()


async def in_an_image(processes: Supervised, directory: Path) -> None:
    """Run a container whose root is a directory unpacked by this user, with links that lead out of it."""
    busybox = shutil.which("busybox")
    if busybox is None or b"/ld-linux" in Path(busybox).read_bytes()[:4096]:  # noqa: ASYNC240
        return
    root, place, log = directory / "root", directory / "image", directory / "image.log"
    for made in (root / "bin", place):
        made.mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for name in ("proc", "sys", "dev"):
        (root / name).symlink_to("/etc")
    script = "b=busybox; id() { $b id -u; }; id; $b ls -d /usr /proc/self /dev/null; $b touch /mine && $b ls /mine"
    spec = ProcessSpec(
        "i",
        ("/bin/busybox", "sh", "-c", script),
        (("PATH", "/bin"),),
        log_path=str(log),
        root=str(root),
        hostname="web",
    )
    exited = await (await processes.start(spec, place)).wait()
    said = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    assert exited.exit_code == 0, said
    assert str(os.getuid()) in said and {"/proc/self", "/dev/null", "/mine"} <= set(said) and "/usr" not in said, said
    assert sorted(each.name for each in root.iterdir()) == ["bin", "dev", "proc", "sys"]
    remove_tree(place)


if __name__ == "__main__":
    asyncio.run(main(Level(sys.argv[1]), Path(sys.argv[2])))
