"""Links to removed logs are removed, and links to a log that comes back are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from syncpod.agent.housekeeping.log_links import LogLinks
from syncpod.lifecycle.observed import ObservedPod
from syncpod.node.log_links import links_directory, make_log_link
from tests.agent.listings import pod

UID = "u1"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "pods"


def linked(logs: Path, uid: str = UID, container: str = "main") -> Path:
    """A container's log, with its link."""
    log = logs / f"default_name-{uid}_{uid}" / container / "0.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    make_log_link(logs, log, container, f"{uid}-{container}".replace("-", ""))
    return log


def listing(**containers: str) -> ObservedPod:
    found = pod(UID, **containers)  # type: ignore[arg-type]
    of = tuple(each.model_copy(update={"id": each.id.replace("-", "")}) for each in found.containers)
    return found.model_copy(update={"containers": of})


async def test_a_log_link_found_dangling_twice_is_removed_unless_alive_or_foreign(logs: Path) -> None:
    """Row 111: a log that is being rotated is gone for a moment."""
    dead, alive, theirs, gone = (
        linked(logs, uid, name) for uid, name in ((UID, "dead"), (UID, "alive"), ("u2", "theirs"), ("u3", "gone"))
    )
    back = linked(logs, UID, "back")
    for log in (dead, alive, theirs, back):
        log.unlink()
    shutil.rmtree(gone.parents[1])
    links = LogLinks(logs, lambda: [listing(dead="exited", alive="running", back="exited")])
    assert await links.round() == 0
    back.touch()
    assert await links.round() == 2
    assert {path.name for path in links_directory(logs).iterdir()} == {
        "name-u1_default_alive-u1alive.log", "name-u1_default_back-u1back.log", "name-u2_default_theirs-u2theirs.log",
    }  # fmt: skip
    assert await links.round() == 0


async def test_a_missing_link_directory_is_ignored(logs: Path) -> None:
    links = LogLinks(logs, lambda: [])
    assert [await links.round() for _ in range(2)] == [0, 0]
