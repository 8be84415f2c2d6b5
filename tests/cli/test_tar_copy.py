"""`cp` with this machine's `tar` in place of a container's, and its arguments."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.copy_locations import CopyLocation, copy_location
from syncpod.cli.streams import tar_copy
from syncpod.cli.streams.command_streams import NeverRan, Output, StreamBroken, Write
from syncpod.cli.streams.tar_copy import Copying
from tests.runtimes.require import do_without

RUN_INSIDE = ("sh", "tail", "tar", "test")
"""The programs that `cp` runs in a container."""
through_tar = pytest.mark.usefixtures("tar")


class Container:
    """Runs commands on this machine; each number in `breaks` ends one command after this many bytes of output."""

    def __init__(self, directory: Path, *breaks: int) -> None:
        self.directory = directory
        self.breaks = list(breaks)
        self.commands: list[Sequence[str]] = []

    async def __call__(self, command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
        self.commands.append(command)
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self.directory
            )
        except FileNotFoundError:
            raise NeverRan(f'exec: "{command[0]}": executable file not found in $PATH') from None
        assert process.stdin and process.stdout and process.stderr
        try:
            with contextlib.suppress(ConnectionError):
                async for data in stdin or _nothing():
                    process.stdin.write(data)
                    await process.stdin.drain()
            process.stdin.close()
            limit = self.breaks.pop(0) if self.breaks and stdin is None and command[0] != "test" else None
            while data := await process.stdout.read(65536 if limit is None else min(limit, 65536)):
                await write(Output.STDOUT, data)
                if limit is not None and (limit := limit - len(data)) <= 0:
                    raise StreamBroken("the connection to the runtime broke; the command may still be running")
            await write(Output.STDERR, await process.stderr.read())
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.gather(process.stdout.read(), process.stderr.read(), process.wait())


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


@pytest.fixture
def tar() -> None:
    """This machine's tar and the other programs that `cp` runs."""
    if missing := [name for name in RUN_INSIDE if shutil.which(name) is None]:
        do_without("tar", f"there is no {' and no '.join(missing)} here")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The container's files."""
    (tmp_path / "inside" / "data" / "sub").mkdir(parents=True)
    (tmp_path / "inside" / "data" / "sub" / "large").write_bytes(os.urandom(1_000_000))
    (tmp_path / "inside" / "data" / "a b").write_text("a name with a blank")
    return tmp_path / "inside"


def same(one: Path, other: Path) -> bool:
    names = sorted(path.relative_to(one) for path in one.rglob("*"))
    return names == sorted(path.relative_to(other) for path in other.rglob("*")) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names if (one / name).is_file()
    )


@through_tar
@pytest.mark.parametrize("path", ["data", "data/", "./data", "{inside}/data", "data/.", "data/sub/.."])
async def test_a_directory_is_copied_out(path: str, inside: Path, tmp_path: Path) -> None:
    tar_copy = Copying(Container(inside), 'container "app"')
    await tar_copy.out_of(path.format(inside=inside), tmp_path / "out", retries=0)
    assert same(inside / "data", tmp_path / "out")


@through_tar
async def test_a_file_is_copied_out_under_the_given_name(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for destination in ("copy", "there"):
        await Copying(Container(inside), 'container "app"').out_of("data/a b", tmp_path / destination, retries=0)
    assert (tmp_path / "copy").read_text() == (tmp_path / "there" / "a b").read_text() == "a name with a blank"


@through_tar
async def test_a_copy_into_a_directory_keeps_its_name_and_any_other_copy_gets_the_given_one(inside: Path) -> None:
    source = inside / "data"
    (inside / "old").mkdir()
    container = Container(inside)
    await Copying(container, 'container "app"').into(source, "old", preserve=True)
    await Copying(container, 'container "app"').into(source, f"{inside}/fresh", preserve=False)
    await Copying(container, 'container "app"').into(source / "a b", "file", preserve=True)
    assert same(source, inside / "old" / "data") and same(source, inside / "fresh")
    assert (inside / "file").read_text() == "a name with a blank"
    assert [command[0] for command in container.commands] == ["test", "tar"] * 3


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_copy, "_RETRY_SECONDS", 0.0)


@through_tar
@pytest.mark.usefixtures("no_waiting")
async def test_a_broken_copy_is_resumed(inside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    container = Container(inside, 1, 5000, 700_001)
    await Copying(container, 'container "app"').out_of("data", tmp_path / "out", retries=3)
    assert same(inside / "data", tmp_path / "out")
    assert [line.rpartition(" after ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "1 bytes",
        "5001 bytes",
        "705002 bytes",
    ]


@through_tar
@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("retries", [0, 1])
async def test_a_copy_that_breaks_too_often_fails(retries: int, inside: Path, tmp_path: Path) -> None:
    with pytest.raises(StreamBroken, match="broke"):
        await Copying(Container(inside, 5000, 5000), 'container "app"').out_of(
            "data", tmp_path / "out", retries=retries
        )


@through_tar
@pytest.mark.usefixtures("no_waiting")
async def test_the_exit_code_of_tar_is_known_after_a_resumed_copy(inside: Path, tmp_path: Path) -> None:
    container = Container(inside, 1)

    async def run(command: Sequence[str], stdin: AsyncIterator[bytes] | None, write: Write) -> int:
        if container.commands:
            (inside / "data").rename(inside / "elsewhere")
        return await container(command, stdin, write)

    with pytest.raises(Failure, match=r'tar in container "app" exited 2 at data: .*No such file'):
        await Copying(run, 'container "app"').out_of("data", tmp_path / "out", retries=1)


@through_tar
async def test_a_missing_file_is_reported_in_tars_words(inside: Path, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r'tar in container "app" exited 2 at none: .*No such file') as out:
        await Copying(Container(inside), 'container "app"').out_of("none", tmp_path / "out", retries=0)
    with pytest.raises(Failure, match=r'tar in container "app" exited 2 at none/where: .*No such file'):
        await Copying(Container(inside), 'container "app"').into(inside / "data", "none/where", preserve=True)
    assert "\n" not in str(out.value)


async def test_a_container_without_tar_is_reported_in_one_sentence(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    works: list[Callable[[], object]] = [
        lambda: Copying(Container(inside), 'container "app"').out_of("data", tmp_path / "out", retries=2),
        lambda: Copying(Container(inside), 'container "app"').into(inside / "data", "/tmp", preserve=True),
    ]
    for work in works:
        with pytest.raises(NeverRan, match='container "app" has no `tar`, and files are copied with it'):
            await work()  # type: ignore[misc]


@through_tar
async def test_an_unreadable_source_ends_tar_and_is_reported(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(source: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(source / "shut"))

    monkeypatch.setattr(tar_copy, "pack", unreadable)
    with pytest.raises(Failure, match="/data/shut: Permission denied"):
        await Copying(Container(inside), 'container "app"').into(inside / "data", "copy", preserve=True)


@through_tar
async def test_an_unwritable_destination_is_reported(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Failure, match=r"file.*: (File exists|Not a directory)"):
        await Copying(Container(inside), 'container "app"').out_of("data", tmp_path / "file", retries=0)
    assert (tmp_path / "file").read_text() == "in the way"


@through_tar
async def test_a_copy_with_skipped_entries_fails_and_keeps_the_rest(
    inside: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (inside / "data" / "out").symlink_to("/etc")
    with pytest.raises(Failure, match="copied, but for 1 entry"):
        await Copying(Container(inside), 'container "app"').out_of("data", tmp_path / "out", retries=0)
    assert "Warning: 'out': a symlink to '/etc', which leads out of" in capsys.readouterr().err
    assert (tmp_path / "out" / "a b").exists()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("file", CopyLocation("file")),
        ("/a:b", CopyLocation("/a:b")),
        ("./a:b", CopyLocation("./a:b")),
        ("web:/etc", CopyLocation("/etc", "web")),
        ("web:rel", CopyLocation("rel", "web")),
        ("team/web:/a:b", CopyLocation("/a:b", "web", "team")),
        ("pod/web:/etc", CopyLocation("/etc", "web")),
    ],
)
def test_copy_locations_are_parsed_as_by_kubectl(text: str, read: CopyLocation) -> None:
    assert copy_location(text) == read


@pytest.mark.parametrize("text", ["", ":/etc", "web:", "a/b/c:/etc", "team/:/etc"])
def test_an_invalid_location_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        copy_location(text)
