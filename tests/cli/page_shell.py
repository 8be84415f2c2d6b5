"""A shell in which the commands of documentation pages are run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.conftest import Result, program
from tests.cli.page_blocks import not_printed

READS = ("get", "tree", "--trace", "logs", "history", "events", "plan", "fleet explain", "list", "fleet remove")
"""What may have to be looked at again. A node's `explain` need not: the journal has what the worker has heard.

`fleet remove` is refused until its node counts as Unknown, and changes nothing then.
"""
PATIENCE_SECONDS = 120
"""A node is Unknown after 50 s of silence."""
SERVES = ("temporal server start-dev", "syncpod runtime", "python worker.py", "prometheus --")
"""Commands that run until they are interrupted: each gets a terminal of its own until the shell is closed."""
READY = {"prometheus --": "Server is ready to receive web requests."}
"""The line with which such a command reports that it serves, if its page does not show that line."""
FOLLOWS = re.compile(r"syncpod (fleet )?logs .*-f\b|syncpod (fleet )?logs -f\b")
"""Commands that run on, and are interrupted once they have printed something."""


class Shell:
    """A shell: it keeps variables set by `eval` and `export`, and ends serving commands when it is closed."""

    def __init__(self, environ: dict[str, str], programs: Sequence[Path] = ()) -> None:
        """Run commands with this environment; `programs` are additional directories for PATH."""
        path = ":".join((str(Path(sys.executable).parent), *map(str, programs), os.environ["PATH"]))
        self._environ = {**environ, "PATH": path}
        self._kept = ""
        self._serving: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Interrupt the serving commands, the newest first, and wait for their end."""
        for process in reversed(self._serving):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)

    def check(self, command: str, shown: list[str], log: Path) -> None:
        """Run a command until it has printed the shown lines; a reading command is repeated, as a user would do.

        A pod's state reaches the journal within a second, and a log within five. Only commands that read are repeated.
        `log` is a file for what a command that serves prints.
        """
        codes = (1, 2) if any(line.startswith("syncpod: ") for line in shown) else (0,)
        deadline = time.monotonic() + PATIENCE_SECONDS
        if command.startswith(SERVES):
            self._serve(command, log)
            ready = next((said for name, said in READY.items() if command.startswith(name)), "")
            while (missing := not_printed(shown, printed := log.read_text())) or ready not in printed:
                assert self._serving[-1].poll() is None and time.monotonic() < deadline, (command, missing, printed)
                time.sleep(0.1)
            return
        while True:
            done = self.run(command)
            missing = not_printed(shown, done.out + done.err)
            if not missing and done.code in codes:
                return
            reads = any(re.search(rf"(^| |-){word}\b", command) for word in READS)
            assert reads and time.monotonic() < deadline, (command, done.code, missing, done.out, done.err)
            time.sleep(0.5)

    def run(self, command: str) -> Result:
        """Run one line; a plain `syncpod` command is run without a shell, which takes less time."""
        words = shlex.split(command, comments=True)
        own = dict(word.split("=", 1) for word in words if re.match(r"OTEL_\w+=", word))
        if FOLLOWS.match(command):
            return self._follow(words)
        if words[0] == "export":
            self._environ |= dict(word.split("=", 1) for word in words[1:])
            return Result(0, "", "")
        if words[0] == "eval":
            self._kept = f"{command}\n"
            return Result(0, "", "")
        if (words := words[len(own) :])[0] == "syncpod" and not re.search(r"&&|\||\$\(", command):
            return program(*words[1:], environ={**self._environ, **own})
        done = subprocess.run(
            ["bash", "-ec", self._kept + command],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **self._environ},
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def _serve(self, command: str, log: Path) -> None:
        """Start a command that runs until this shell is closed."""
        words = shlex.split(command, comments=True)
        environ = {**os.environ, **self._environ}
        with log.open("wb") as output:
            self._serving.append(subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=environ))

    def _follow(self, words: Sequence[str]) -> Result:
        """Run a command that does not end by itself, and interrupt it once it has printed something."""
        command = [sys.executable, "-m", "syncpod.cli.main", *words[1:]]
        environ = {**os.environ, **self._environ}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as following:
            assert following.stdout is not None
            first = following.stdout.readline()
            following.send_signal(signal.SIGINT)
            out, _ = following.communicate(timeout=60)
        return Result(following.returncode - 130 if first else 1, first + out, "")
