"""Copies files to and from a container by running `tar` in it."""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from syncpod.api.views.text import printable
from syncpod.cli.console import remark, warn
from syncpod.cli.failure import Failure, why_of
from syncpod.cli.streams import terminal
from syncpod.cli.streams.archives import NotWhatWasAsked, pack, unpack
from syncpod.cli.streams.command_streams import NeverRan, Output, Write

Run = Callable[[Sequence[str], AsyncIterator[bytes] | None, Write], Awaitable[int]]
"""Runs a command in the container with this input, and returns its exit code; raises Failure."""

_RETRY_SECONDS: Final = 1.0
_NOT_THERE: Final = re.compile(
    r"executable file not found|no such file or directory|not found in \$PATH", re.IGNORECASE
)
_COMPLAINT: Final = 2000
"""Maximum number of bytes of tar's error output that are kept."""

_FROM_BYTE: Final = """
exec 3>&1
code=$( { { tar cf - -C "$1" "$2"; echo $? >&4; } | tail -c "+$3" >&3; } 4>&1 )
exit "$code"
"""
"""A shell script that prints tar's output from a byte on (counting from 1), and exits with tar's code."""


class Copying:
    """Copies into and out of one container."""

    def __init__(self, run: Run, container: str) -> None:
        """Run `tar` with `run`; `container` names the container in messages, as `container "main"`."""
        self._run = run
        self._container = container
        self._left_out = 0

    async def into(self, source: Path, path: str, *, preserve: bool) -> None:
        """Copy a file or a directory of this machine to `path`, or into it if that is a directory.

        Raises Failure also if some entries were left out and the rest was copied.
        """
        if await self._is_directory(path):
            path = posixpath.join(path, posixpath.basename(posixpath.abspath(source)))
        directory, name = posixpath.split(posixpath.normpath(path))
        options = () if preserve else ("--no-same-permissions", "--no-same-owner")
        command = ("tar", *options, "-xmf", "-", "-C", directory or ".")
        tar = _Said()
        reading, writing = os.pipe()
        packing = asyncio.create_task(asyncio.to_thread(self._pack, source, name, writing))

        async def packed() -> AsyncIterator[bytes]:
            async for data in terminal.read(reading):
                yield data
            try:
                await packing
            except OSError as error:  # without it, tar would take this for the end of the archive
                raise Failure(f"{error.filename or source}: {why_of(error)}") from None

        try:
            code = await self._tar(command, packed(), tar)
        finally:
            os.close(reading)
            # tar has ended, so the archive has no reader: wait until packing has failed or finished.
            await asyncio.gather(packing, return_exceptions=True)
        self._judge(code, tar, path)

    def _pack(self, source: Path, name: str, descriptor: int) -> None:
        with os.fdopen(descriptor, "wb") as stream:
            pack(source, name, stream, self._leave_out)

    async def out_of(self, path: str, destination: Path, *, retries: int) -> None:
        """Copy a file or a directory out of the container, resuming up to `retries` times after a break (-1 = always).

        Raises Failure also if some entries were left out and the rest was copied.
        """
        directory, root = _parted(path)
        tar = _Said()
        reading, writing = os.pipe()
        name = posixpath.basename(posixpath.normpath(path))
        unpacking = asyncio.create_task(asyncio.to_thread(self._unpack, reading, root, destination, name))
        try:
            code = await self._fetch(directory, root, writing, tar, retries)
        except BrokenPipeError:
            code = 0  # unpacking has failed, and its error is raised below
        finally:
            os.close(writing)
            await asyncio.gather(unpacking, return_exceptions=True)
        problem = unpacking.exception()
        if problem is not None and (code == 0 or isinstance(problem, OSError)):
            raise _unpacked_not(problem, path)
        self._judge(code, tar, path)

    def _unpack(self, descriptor: int, root: str, destination: Path, name: str) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            unpack(stream, root, destination, name, self._leave_out)

    async def _fetch(self, directory: str, root: str, target: int, tar: _Said, retries: int) -> int:
        """Run tar, write its output to `target`, and return its exit code.

        A broken connection is resumed at the first missing byte, up to `retries` times (-1 = always).
        """
        fetched = 0

        async def write(which: Output, data: bytes) -> None:
            nonlocal fetched
            if which is Output.STDERR:
                tar.hear(data)
            else:
                await terminal.write(target, data)
                fetched += len(data)

        command: tuple[str, ...] = ("tar", "cf", "-", "-C", directory, root)
        while True:
            try:
                return await self._tar(command, None, tar, write)
            except NeverRan:
                raise
            except Failure as broken:
                if retries == 0:
                    raise
                retries -= 1
                remark(f"Note: {broken}; going on after {fetched} bytes")
                await asyncio.sleep(_RETRY_SECONDS)
                command = ("sh", "-c", _FROM_BYTE, "sh", directory, root, str(fetched + 1))

    async def _is_directory(self, path: str) -> bool:
        """Return whether a path in the container is a directory; False if it has no `test` program, as in kubectl."""

        async def drop(_which: Output, _data: bytes) -> None:
            pass

        try:
            return await self._run(("test", "-d", path), None, drop) == 0
        except NeverRan:
            return False

    async def _tar(
        self, command: Sequence[str], stdin: AsyncIterator[bytes] | None, tar: _Said, write: Write | None = None
    ) -> int:
        try:
            return await self._run(command, stdin, write or tar)
        except NeverRan as never:
            if _NOT_THERE.search(str(never)):
                raise NeverRan(f"{self._container} has no `{command[0]}`, and files are copied with it") from None
            raise

    def _leave_out(self, sentence: str) -> None:
        self._left_out += 1
        warn(printable(sentence))

    def _judge(self, code: int, tar: _Said, path: str) -> None:
        """Print tar's warnings. Raises Failure if tar failed, or something was left out."""
        if code:
            said = printable("; ".join(tar.lines)) or "it does not say why"
            raise Failure(f"tar in {self._container} exited {code} at {path}: {said}")
        for line in tar.lines:
            warn(printable(line))
        if self._left_out:
            raise Failure(f"copied, but for {self._left_out} {'entry' if self._left_out == 1 else 'entries'}")


class _Said:
    """tar's error output."""

    def __init__(self) -> None:
        self._text = bytearray()

    def hear(self, data: bytes) -> None:
        """Add a part of the output. Output beyond the limit is dropped."""
        self._text += data[: _COMPLAINT - len(self._text)]

    async def __call__(self, _which: Output, data: bytes) -> None:
        self.hear(data)

    @property
    def lines(self) -> list[str]:
        """Return the output's lines, without the program's name."""
        return [line.removeprefix("tar: ") for line in self._text.decode(errors="replace").splitlines() if line.strip()]


def _parted(path: str) -> tuple[str, str]:
    """Return a directory, and the name in it for tar. The name is not absolute, and does not look like an option."""
    directory, name = posixpath.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return path, "."
    return directory or ("/" if path.startswith("/") else "."), f"./{name}"


def _unpacked_not(problem: BaseException, path: str) -> BaseException:
    if isinstance(problem, NotWhatWasAsked):
        return Failure(f"{path}: {problem}")
    if isinstance(problem, tarfile.TarError):
        return Failure(f"{path}: the container did not send a whole archive: {problem}")
    if isinstance(problem, OSError):
        return Failure(f"{problem.filename or path}: {why_of(problem)}")
    return problem
