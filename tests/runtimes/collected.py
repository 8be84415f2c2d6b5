"""Lists the tests that run on a runtime: `python -m tests.runtimes.collected` prints them, each as a line of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TextIO

import pytest

from tests.runtimes import selection
from tests.runtimes.embedded import ROOT


@dataclass(frozen=True)
class Collected:
    """One test on one runtime."""

    test: str
    """Its id, with its parameters."""
    runtime: str
    reason: str
    """Why it runs on every runtime; "" if it runs on one of them."""

    @property
    def file(self) -> str:
        """Its file, below `tests`."""
        return str(PurePosixPath(self.test.partition("::")[0]).relative_to("tests"))

    @property
    def name(self) -> str:
        """Its name without its parameters."""
        return self.test.partition("::")[2].partition("[")[0]


async def collected() -> tuple[Collected, ...]:
    """Collect the whole suite in a process of its own. Raises RuntimeError with pytest's output if that fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.runtimes.collected"),
        cwd=ROOT,
        env={**os.environ, "SYNCPOD_RUNTIMES": selection.ALL},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    listed, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(said.decode(errors="replace"))
    return tuple(Collected(**json.loads(line)) for line in listed.splitlines())


class _Listing:
    def __init__(self, output: TextIO) -> None:
        self._output = output

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if runtime := selection.runtime_of(item):
                which = selection.containerds_of(item).value.replace("_", " ")
                reason = f"{selection.reason_of(item)} ({which})" if which else selection.reason_of(item)
                each = Collected(item.nodeid, runtime, reason)
                self._output.write(json.dumps(asdict(each)) + "\n")


def main() -> int:
    """Collect and print the tests; pytest's output goes to standard error."""
    listing = _Listing(sys.stdout)
    with contextlib.redirect_stdout(sys.stderr):
        return int(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "tests"], plugins=[listing]))


if __name__ == "__main__":
    sys.exit(main())
