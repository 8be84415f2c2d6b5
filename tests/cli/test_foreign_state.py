"""Every command refuses a state directory that belongs to another account.

Holds: Nothing is read in a directory that another account could have written.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.agent.takeover.preconditions import CannotServe, require_directory
from syncpod.cli.machine.processes import end
from syncpod.cli.machine.state_directory import ServerRecord, write_server
from syncpod.kernel.procfs import identify
from tests.cli.conftest import program

STRANGER = 20001
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to another user")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not belong to syncpod."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def trap(tmp_path: Path, victim: subprocess.Popen[bytes]) -> Path:
    """A state directory of another account, whose record names the victim, and whose lock is a link."""
    process = identify(victim.pid)
    assert process is not None
    directory = tmp_path / "state"
    directory.mkdir(mode=0o755)
    write_server(directory, ServerRecord(process, "127.0.0.1:1", "http://127.0.0.1:2", detached=True))
    (directory / "up.lock").symlink_to(tmp_path / "made-by-root")
    for path in (directory, *directory.iterdir()):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    return directory


@needs_root
@pytest.mark.parametrize(
    "command",
    [("down",), ("down", "--purge"), ("up",), ("node",), ("get", "pods"), ("server",), ("fleet", "get", "nodes")],
)
def test_every_command_refuses_a_state_directory_of_another_account(
    trap: Path, victim: subprocess.Popen[bytes], command: tuple[str, ...]
) -> None:
    done = program(*command, environ={"SYNCPOD_STATE_DIR": str(trap)})
    assert victim.poll() is None, "nothing is signalled"
    assert not (trap.parent / "made-by-root").exists(), "no link is followed"
    assert (done.code, done.err.count("\n"), f"{trap} belongs to user {STRANGER}" in done.err) == (2, 1, True), done.err


@needs_root
@pytest.mark.parametrize("variable", ["SYNCPOD_MEMORY_DIR", "SYNCPOD_LOG_DIR"])
def test_secrets_and_log_directories_of_another_account_are_refused(tmp_path: Path, variable: str) -> None:
    (theirs := tmp_path / "theirs").mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    done = program("down", environ={"SYNCPOD_STATE_DIR": str(tmp_path / "state"), variable: str(theirs / "below")})
    assert (done.code, f"{theirs} belongs to user {STRANGER}" in done.err) == (2, True), done.err


@needs_root
def test_a_process_of_another_user_is_never_ended_despite_a_record() -> None:
    child = subprocess.Popen(["sleep", "600"], user=STRANGER)
    try:
        process = identify(child.pid)
        assert process is not None
        assert (end(process, patience_seconds=1), child.poll()) == (False, None)
    finally:
        child.kill()
        child.wait()


@needs_root
def test_manifests_of_another_account_are_not_followed(tmp_path: Path) -> None:
    (theirs := tmp_path / "theirs").mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    done = program("up", "--simulate", "--manifests", str(theirs), environ={"SYNCPOD_STATE_DIR": str(tmp_path / "s")})
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert f"manifest directory {theirs}: {theirs} belongs to user {STRANGER}" in done.err
    assert not (tmp_path / "s" / "server.json").exists(), "nothing is started"


@needs_root
def test_a_worker_does_not_serve_with_manifests_of_another_account(tmp_path: Path) -> None:
    asyncio.run(require_directory(None))
    asyncio.run(require_directory(tmp_path))
    asyncio.run(require_directory(tmp_path / "to be made later"))
    tmp_path.chmod(0o777)
    with pytest.raises(CannotServe, match=r"manifest directory /.* is writable by others"):
        asyncio.run(require_directory(tmp_path))


AS_ANOTHER = """
import os, sys
from pathlib import Path
from syncpod.settings.directories import require_own_directory
from syncpod.settings.values import SettingsInvalid

os.setgroups([]); os.setgid(20001); os.setuid(20001)
try:
    require_own_directory("state directory", Path(sys.argv[1]), "SYNCPOD_STATE_DIR")
except SettingsInvalid as wrong:
    print(wrong)
"""


@needs_root
def test_a_user_who_may_not_read_roots_state_directory_is_told_so() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        told = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER, directory], capture_output=True, text=True, check=False, timeout=60
        )
    assert told.stdout == (
        f"state directory {directory}: belongs to user 0, and you may not read it; "
        "name another one in SYNCPOD_STATE_DIR\n"
    ), told.stderr
