"""Plants bugs into a copy of the tree, one after another, and runs the tests that should find them there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qa.planted.plant import ROOT, Plant

_ALL_PASSED, _SOME_FAILED, _INTERRUPTED = 0, 1, 2
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis")
_ENDING_SECONDS = 60.0


@dataclass(frozen=True)
class Trial:
    """The result of the tests of one bug."""

    found: bool
    seconds: float
    said: str
    """The first test that failed; if none did, pytest's last line, or how it ended."""


@dataclass(frozen=True)
class _Run:
    failed: tuple[str, ...]
    """The tests that failed, and the files that could not be collected."""
    seconds: float
    last: str
    """The last line of pytest's output, or a sentence on how it ended."""
    is_whole: bool = True
    """Pytest ended by itself, and with one of the usual exit codes."""


class Nursery:
    """A copy of the tree in a directory, into which one bug after another is planted."""

    def __init__(self, directory: Path, *, whole: bool, seconds: float, processes: int) -> None:
        self._directory = directory
        self._tree = directory / "tree"
        self._whole = whole
        self._seconds = seconds
        self._processes = processes
        shutil.copytree(ROOT, self._tree, ignore=_LEFT_OUT)

    def try_out(self, plant: Plant) -> Trial:
        """Plant a bug, and run its tests or the whole suite until one fails. Raises StalePlant."""
        with self._planted(plant):
            tests = ("tests", "--ignore=tests/qa/test_planted.py") if self._whole else plant.tests
            run = self._run("-x", *tests, seconds=self._seconds)
        return Trial(bool(run.failed), run.seconds, run.failed[0] if run.failed else run.last)

    def failing_without_bug(self, tests: Collection[str]) -> frozenset[str]:
        """Return those of these tests that also fail without a bug. Raises RuntimeError if pytest does not finish."""
        if not tests:
            return frozenset()
        run = self._run(*sorted(tests), seconds=self._seconds * len(tests))
        if not run.is_whole:
            raise RuntimeError(f"it is not known whether these tests pass without the bugs: {run.last}")
        return frozenset(run.failed)

    @contextmanager
    def _planted(self, plant: Plant) -> Iterator[None]:
        """Write the bug into the tree for the duration of the `with` block. Raises StalePlant."""
        file, text = self._tree / plant.file, plant.planted(self._tree)
        right = file.read_text()
        try:
            _write(file, text)
            yield
        finally:
            _write(file, right)

    def _run(self, *arguments: str, seconds: float) -> _Run:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
        if self._processes > 1:
            command += [f"--numprocesses={self._processes}", "--dist=loadgroup", "--no-loadscope-reorder"]
        environment = os.environ | {"PYTHONPATH": str(self._tree)}
        log, begun = self._directory / "log", time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                command, cwd=self._tree, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            code = _ended_within(process, seconds)
        took = time.monotonic() - begun
        lines = log.read_text(errors="replace").splitlines()
        last = next((line.strip("= ") for line in reversed(lines) if line.strip()), "pytest has said nothing")
        failed = _failed(lines)
        if code is None:  # tests that failed until then count: because of the bug, a later test may never end
            return _Run(failed, took, f"not over within {seconds:.0f} s", is_whole=False)
        if code not in (_ALL_PASSED, _SOME_FAILED, _INTERRUPTED):
            return _Run(failed, took, f"pytest ended with {code}: {last}", is_whole=False)
        return _Run(failed, took, last)


@contextmanager
def nursery(*, whole: bool, seconds: float, processes: int) -> Iterator[Nursery]:
    """Yield a nursery in a temporary directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        # Some tests run as another user, who must be able to enter the directory.
        Path(directory).chmod(0o755)
        yield Nursery(Path(directory), whole=whole, seconds=seconds, processes=processes)


def _write(file: Path, text: str) -> None:
    """Write a module, and remove its bytecode, which Python would use if size and second of the source are the same."""
    file.write_text(text)
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for pytest, and return its exit code; None if it took too long and was ended.

    It is first ended by SIGINT, so that it can end the processes that it started.
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return None
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def _failed(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the tests and files that pytest's summary lists as failed, without parameters and xdist's ``@group``."""
    named = (line.partition(" ")[::2] for line in lines)
    failed = (rest for word, rest in named if word in ("FAILED", "ERROR") and rest.startswith("tests/"))
    return tuple(dict.fromkeys(re.split(r"\[|@", rest.partition(" - ")[0])[0] for rest in failed))
