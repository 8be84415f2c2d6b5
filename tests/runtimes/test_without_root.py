"""Runs tests of the embedded runtime, and of the engine on it, again as the user nobody."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtimes.embedded import ROOT
from tests.runtimes.require import do_without
from tests.runtimes.selection import ALL, asked_for

NOBODY = 65534
TESTS = (
    "tests/runtimes/test_same_answers.py",
    "tests/e2e/test_start.py",
    "tests/e2e/test_containers.py",
    "tests/e2e/test_volumes.py",
    "tests/e2e/test_deletion.py",
)
OF_THE_ENGINE = ("tests/e2e/test_environment.py", "tests/e2e/test_changes.py")
"""Tests of the engine that are the same without root."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of the user nobody, with nothing of root in it."""
    home = Path(tempfile.mkdtemp(prefix="nobody-"))
    os.chown(home, NOBODY, NOBODY)
    yield home
    shutil.rmtree(home)


def as_nobody(*command: str) -> tuple[str, ...]:
    """A command that runs as nobody. A shell looks it up: setpriv would do so while it still has root's rights."""
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all")
    return (*drop, "sh", "-c", 'exec "$@"', "sh", *command)


def interpreter() -> str:
    """This Python; if the user nobody cannot reach it, for example in root's home, the system's of the same version."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    ask = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}', sys.prefix)"
    for candidate in (sys.executable, f"/usr/bin/python{version}"):
        told = subprocess.run(as_nobody(candidate, "-c", ask), capture_output=True, text=True, check=False)
        if told.stdout.startswith(f"{version} "):
            return candidate
    do_without("embedded", f"nobody can run no Python {version} here")


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs without root already")
async def test_the_suite_of_the_embedded_runtime_passes_without_root(home: Path) -> None:
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    pytest_run = (interpreter(), "-m", "pytest", "-q", "-rfEs", "-k", "embedded", "-p", "no:cacheprovider")
    process = await asyncio.create_subprocess_exec(
        *as_nobody(*pytest_run, f"--basetemp={home}/tests", *TESTS, *(OF_THE_ENGINE if asked_for() == ALL else ())),
        cwd=ROOT,
        env={
            **environment,
            "HOME": str(home),
            "PYTHONPATH": sysconfig.get_path("platlib"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SYNCPOD_REQUIRE": "embedded,temporal",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        process.terminate()
        await process.wait()
        raise
    told = output.decode(errors="replace")
    assert process.returncode == 0, told[-12_000:]
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None and int(passed[1]) >= 40, told
