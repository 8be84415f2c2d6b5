"""Runs `syncpod` commands one after another in one other process, which imports syncpod only once.

The commands run in another process because they need standard streams that they do not share with pytest.
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
"""Limit of the length of a command's answer, in bytes."""


@dataclass(frozen=True)
class Said:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """Its warnings about fields of a manifest, without the names of the pods."""
        return tuple(re.findall(r"^Warning: (?:pod \S+: )?((?:spec|metadata)\..*)$", self.err, re.MULTILINE))

    def refusal(self, source: str) -> str:
        """Its error messages about a manifest, without the names of file and pod; "" if the command succeeded."""
        if self.code == 0:
            return ""
        prefix = re.compile(rf"^syncpod: ({re.escape(source)}(, document \d+)?: )?(pod \S+: )?")
        return "; ".join(prefix.sub("", line) for line in self.err.splitlines() if line.startswith("syncpod: "))


@dataclass
class CommandLine:
    """The other process. Its commands run one at a time."""

    _process: asyncio.subprocess.Process
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, environ: Mapping[str, str]) -> AsyncIterator[Self]:
        """Start the process, with these variables added to the environment, for the `with` block."""
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
        """Run a command. Raises EOFError if the process has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
            answer = await self._process.stdout.readline()
        if not answer:
            raise EOFError(f"the command line ended in `syncpod {' '.join(arguments)}`")
        return Said(**json.loads(answer))


def main() -> None:
    """Run the commands from standard input, and write the results; both are one line of JSON for each command."""
    from syncpod.cli.main import run

    answers, lines = sys.stdout, sys.stdin
    for line in lines:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(json.loads(line))
        answers.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()}) + "\n")
        answers.flush()
    os._exit(0)  # syncpod's own program ends in the same way


if __name__ == "__main__":
    main()
