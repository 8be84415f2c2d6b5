"""Runs other test modules again as another user, if this user is root. Needs an interpreter that everybody may run.

Holds: The embedded runtime refuses with one sentence any request that it cannot fulfil.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from syncpod.runtime.processes.records import Level

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
SCENARIO = Path(__file__).with_name("unprivileged_scenario.py")
CLOSED_MOUNT = Path(__file__).with_name("closed_mount.py")
PROBE = REPOSITORY / "syncpod/runtime/processes/probe.py"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="this user is not root: the other tests are these")


def as_nobody(*command: str) -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


def interpreter() -> str | None:
    """A Python, not older than 3.11, that nobody may run and that can read this repository."""
    # Only what such a process starts shows it: to setpriv itself root's rights still count.
    check = (
        "import os, subprocess, sys; sys.exit(sys.version_info < (3, 11)"
        f" or not os.access({str(SCENARIO)!r}, os.R_OK) or subprocess.call([sys.executable, '-c', '']))"
    )
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate and subprocess.run(as_nobody(candidate, "-c", check), check=False, stderr=-3).returncode == 0:
            return candidate
    return None


@pytest.fixture
def own_directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="syncpod-nobody-"))
    os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("level", [Level.USER_NAMESPACES, Level.PLAIN], ids=lambda level: level.value)
def test_without_root_containers_run_exit_and_are_found_again(own_directory: Path, level: Level) -> None:
    python = interpreter()
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, and a Python 3.11 or later that every user may run")
    command = as_nobody(python, "-B", str(SCENARIO), level.value, str(own_directory))
    done = subprocess.run(
        command,
        cwd=own_directory,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE")  # noqa: PTH110
@pytest.mark.parametrize(
    ("within", "level"),
    [((), Level.NAMESPACES), (as_nobody(), Level.USER_NAMESPACES)],
    ids=["root", "nobody"],
)
def test_an_inaccessible_mount_does_not_weaken_isolation(
    own_directory: Path, within: Sequence[str], level: Level
) -> None:
    python = interpreter()
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, and a Python 3.11 or later that every user may run")
    tried = [*within, python, "-B", "-I", "-S", str(PROBE), str(own_directory)]
    # In root's own directories nobody may make a mount point, so one that every machine has is used.
    without = subprocess.run(tried, capture_output=True, text=True, check=True).stdout.splitlines()
    if without[0] != level.value:
        pytest.skip(f"{level.value} do not work here: {without[1]}")
    found = subprocess.run([python, CLOSED_MOUNT, "/srv", *tried], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [level.value, ""]
