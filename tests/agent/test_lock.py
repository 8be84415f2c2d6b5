"""A node's lock has one holder; if a holder is killed but cannot end, the lock can be taken over.

Holds: A node has one agent on a machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from syncpod.agent.takeover.lock import NodeLock, NotThisNode, machine_id, node_of
from syncpod.settings.directories import require_no_copy
from syncpod.settings.values import SettingsInvalid
from tests.hung_disk import hung_disk

HOLD = """
import sys, time
from pathlib import Path
from syncpod.agent.takeover.lock import NodeLock
lock = NodeLock(Path(sys.argv[1]), "n1", machine="m1")
print(lock.life.boot, flush=True)
time.sleep(600)
"""
HOLD_AND_HANG = """
import os, sys, threading, time
from pathlib import Path
from syncpod.agent.takeover.lock import NodeLock
lock = NodeLock(Path(sys.argv[1]), "n1", machine="m1")
threading.Thread(target=os.stat, args=(sys.argv[2],), daemon=True).start()
print(lock.life.boot, flush=True)
time.sleep(600)
"""


def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition is true; fails after a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "var" / "state"


def boot(state_dir: Path, node: str = "n1", machine: str | None = "m1") -> int:
    with NodeLock(state_dir, node, machine=machine) as lock:
        return lock.life.boot


def test_each_worker_life_has_a_higher_number_than_the_last(state_dir: Path) -> None:
    first, second, third = boot(state_dir), boot(state_dir), boot(state_dir)
    assert first < second < third


def test_life_numbers_grow_even_if_the_clock_is_set_back(state_dir: Path) -> None:
    boot(state_dir)
    node = state_dir / "node.json"
    ahead = int(time.time()) + 86_400
    node.write_text(json.dumps(json.loads(node.read_text()) | {"boot": ahead}))
    assert boot(state_dir) == ahead + 1


def test_life_numbers_grow_even_on_a_restored_state_directory(tmp_path: Path) -> None:
    """After a state directory was restored from a copy, or another one was used: workflows know newer listings."""
    boot(tmp_path / "a")
    node = tmp_path / "a" / "node.json"
    node.write_text(json.dumps(json.loads(node.read_text()) | {"boot": int(time.time()) - 86_400}))
    since = boot(tmp_path / "b")
    assert boot(tmp_path / "a") >= since


def test_life_numbers_grow_even_after_the_state_was_lost(state_dir: Path) -> None:
    before = boot(state_dir)
    (state_dir / "node.json").unlink()
    assert boot(state_dir) >= before
    # One second of life is all that it takes: lives are counted in ones, the clock runs in seconds.
    assert before > 1_700_000_000


def test_identity_names_node_machine_and_life(state_dir: Path) -> None:
    with NodeLock(state_dir, "n1", machine="m1") as lock:
        node, machine, life = lock.life.identity.split("/")
    with NodeLock(state_dir, "n1", machine="m1") as lock:
        assert lock.life.identity.startswith(f"{node}/{machine}/")
        assert lock.life.boot > int(life)
    assert node == "n1"
    assert len(machine) == 12


def test_two_state_directories_on_one_machine_have_different_identities(tmp_path: Path) -> None:
    with NodeLock(tmp_path / "a", "n1", machine="m1") as a, NodeLock(tmp_path / "b", "n1", machine="m1") as b:
        assert a.life.machine != b.life.machine


def test_state_is_private(state_dir: Path) -> None:
    state_dir.mkdir(parents=True, mode=0o755)
    boot(state_dir)
    assert state_dir.stat().st_mode & 0o777 == 0o700
    assert (state_dir / "node.json").stat().st_mode & 0o777 == 0o600
    assert (state_dir / "lock").stat().st_mode & 0o777 == 0o600


def test_a_second_worker_is_refused_with_the_holders_pid_until_the_first_dies(state_dir: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(state_dir)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        held = int(holder.stdout.readline())
        with pytest.raises(
            NotThisNode, match=f"in use by the worker in process {holder.pid}: one worker serves a node"
        ):
            boot(state_dir)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert boot(state_dir) > held


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a FUSE file system without fusermount")
def test_a_killed_worker_that_waits_for_a_hung_disk_is_replaced(state_dir: Path, tmp_path: Path) -> None:
    """It keeps its lock until the disk answers, which may be never; while it lives, it keeps its node."""
    with hung_disk(tmp_path / "hung", taken=True) as disk:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_AND_HANG, str(state_dir), str(disk)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert holder.stdout is not None
            held = int(holder.stdout.readline())
            waiting = Path(f"/proc/{holder.pid}/task")
            until(lambda: any("request_wait_answer" in (each / "wchan").read_text() for each in waiting.iterdir()))
            with pytest.raises(NotThisNode, match=f"in use by the worker in process {holder.pid}"):
                boot(state_dir)
            holder.kill()
            with NodeLock(state_dir, "n1", machine="m1") as lock:
                assert lock.life.boot > held
                assert waiting.exists(), "it is still there"
                with pytest.raises(NotThisNode, match=f"in use by the worker in process {os.getpid()}"):
                    boot(state_dir)
        finally:
            holder.kill()
    holder.communicate()
    assert boot(state_dir) > held


def test_a_refused_worker_does_not_increment_the_life_number(state_dir: Path) -> None:
    with NodeLock(state_dir, "n1", machine="m1"):
        before = (state_dir / "node.json").read_text()
        with pytest.raises(NotThisNode):
            NodeLock(state_dir, "n1", machine="m1")
        assert (state_dir / "node.json").read_text() == before


def test_state_of_another_node_is_refused(state_dir: Path) -> None:
    boot(state_dir)
    with pytest.raises(NotThisNode, match=r"belongs to node n1: give node n2 one of its own \(--state-dir\)"):
        boot(state_dir, node="n2")
    with NodeLock(state_dir, "n2", machine="m1", may_rename=True) as lock:
        assert lock.life.node == "n2" == node_of(state_dir)


def test_state_of_another_machine_is_refused(state_dir: Path) -> None:
    boot(state_dir)
    with pytest.raises(NotThisNode, match="belongs to another machine: two machines must never serve one node"):
        boot(state_dir, machine="m2")
    boot(state_dir, machine=None)  # a container without a machine id: the directory is all there is to go by


def test_a_copy_of_a_state_directory_is_refused_and_a_moved_one_is_not(tmp_path: Path) -> None:
    origin, copy, moved = tmp_path / "origin", tmp_path / "copy", tmp_path / "moved"
    boot(origin)
    shutil.copytree(origin, copy)
    with pytest.raises(SettingsInvalid, match=f"^state directory {copy} is a copy of {origin}, and cannot serve"):
        require_no_copy(copy)
    (tmp_path / "link").symlink_to(origin)
    for same in (origin, tmp_path / "link", tmp_path / "none"):
        require_no_copy(same)

    origin.rename(moved)
    boot(tmp_path / "origin")  # another node's, in the place of the one that was moved
    require_no_copy(moved)
    boot(moved)
    shutil.copytree(moved, tmp_path / "again")
    with pytest.raises(SettingsInvalid, match=f"is a copy of {moved}"):
        require_no_copy(tmp_path / "again")


def test_unreadable_state_is_refused_and_not_reset(state_dir: Path) -> None:
    boot(state_dir)
    (state_dir / "node.json").write_text(json.dumps({"node": "n1"}))
    with pytest.raises(NotThisNode, match=r"node\.json cannot be read .*: restore it, or remove it"):
        boot(state_dir)


def test_a_state_directory_that_cannot_be_created_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotThisNode, match=r"state directory .*/file/state: Not a directory"):
        boot(tmp_path / "file" / "state")


def test_the_first_machine_id_found_is_used_in_hashed_form(tmp_path: Path) -> None:
    empty, said = tmp_path / "empty", tmp_path / "said"
    empty.write_text("\n")
    said.write_text("0123456789abcdef0123456789abcdef\n")
    found = machine_id((tmp_path / "none", empty, said))
    assert found is not None
    assert len(found) == 12
    assert found not in said.read_text()
    assert machine_id((tmp_path / "none", empty)) is None
