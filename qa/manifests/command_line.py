"""`syncpod` in a process that has it imported already, and runs one command after another.

A command costs what it does, not what its imports do; and the process has its standard streams to itself, which the one
that runs tests has not.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Self

_LONGEST_LINE = 8 << 20
"""Bytes."""


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What it warned of in a manifest, without the names of the pods; not that a busy node is slow to answer."""
        return tuple(re.findall(r"^Warning: (?:pod \S+: )?((?:spec|metadata)\..*)$", self.err, re.MULTILINE))

    def refusal(self, source: str) -> str:
        """The sentences by which it refused a manifest, without the names of the file and the pod; "" if it did not."""
        if self.code == 0:
            return ""
        prefix = re.compile(rf"^syncpod: ({re.escape(source)}(, document \d+)?: )?(pod \S+: )?")
        return "; ".join(prefix.sub("", line) for line in self.err.splitlines() if line.startswith("syncpod: "))


@dataclass
class CommandLine:
    """The process. Commands wait for one another."""

    _process: asyncio.subprocess.Process
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, environ: Mapping[str, str]) -> AsyncIterator[Self]:
        """Start it with these variables besides one's own; it ends with the block."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__),
            stdin=pipe,
            stdout=pipe,
            limit=_LONGEST_LINE,
            env={**os.environ, **environ},
        )
        assert process.stdin is not None
        try:
            yield cls(process)
        finally:
            process.stdin.close()
            await process.wait()

    async def run(self, *arguments: str) -> Said:
        """Run a command. Raises EOFError where the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
            answer = await self._process.stdout.readline()
        if not answer:
            raise EOFError(f"the command line ended in `syncpod {' '.join(arguments)}`")
        return Said(**json.loads(answer))


def main() -> None:
    """Run the commands that standard input has, a line of JSON each, and answer each with one."""
    from syncpod.cli.main import run

    answers, lines = sys.stdout, sys.stdin
    for line in lines:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(json.loads(line))
        answers.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()}) + "\n")
        answers.flush()
    os._exit(0)  # as the program ends


if __name__ == "__main__":
    main()
