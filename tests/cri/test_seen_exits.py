"""What the node has seen of a container's end is laid over what the runtime does not know, and over nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from syncpod.cri.port import RuntimeContainerStatus
from syncpod.cri.seen_exits import SeenExits
from syncpod.lifecycle.observed import ContainerRuntimeState

AT = datetime(2026, 1, 1, 12, 30, 1, 250_000, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


def status(state: ContainerRuntimeState, code: int = 0, reason: str = "") -> RuntimeContainerStatus:
    finished = LATER if state == "exited" else None
    return RuntimeContainerStatus(
        id="c1", name="web", attempt=0, state=state, created_at=AT, started_at=AT, finished_at=finished,
        exit_code=code, reason=reason, message="", image="", image_ref="", labels={}, annotations={}, log_path="",
        mounts=(), pid=0, stop_signal="",
    )  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "exits"


@pytest.mark.parametrize(("code", "reason"), [(7, "Error"), (0, "Completed")])
def test_an_end_that_the_runtime_does_not_know_is_the_one_that_was_seen(
    directory: Path, code: int, reason: str
) -> None:
    exits = SeenExits(directory)
    exits.note("c1", code, AT)
    told = exits.complete(status("exited", 255, "Unknown"))
    assert (told.exit_code, told.reason, told.finished_at) == (code, reason, AT)


@pytest.mark.parametrize(
    "known", [status("exited", 255, "Error"), status("exited", 137, "OOMKilled"), status("running")], ids=str
)
def test_what_the_runtime_knows_stays(directory: Path, known: RuntimeContainerStatus) -> None:
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    assert exits.complete(known) == known
    assert SeenExits(directory / "other").complete(known) == known


def test_another_life_of_the_worker_knows_it_too_and_nobody_else_may_read_it(directory: Path) -> None:
    SeenExits(directory).note("c1", 7, AT)
    assert SeenExits(directory).complete(status("exited", 255, "Unknown")).exit_code == 7
    assert (directory.stat().st_mode & 0o777, (directory / "c1").stat().st_mode & 0o777) == (0o700, 0o600)


def test_an_end_goes_with_its_container(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.note("c1", 7, AT)
    exits.forget(exits.ids())
    assert (exits.ids(), list(directory.iterdir())) == (frozenset(), [])


def test_what_is_no_record_of_an_end_is_passed_over(directory: Path) -> None:
    directory.mkdir()
    (directory / "c1").write_text("{")
    (directory / "c2").write_text("[]")
    (directory / ".c3.new").write_text('{"exitCode"')
    assert SeenExits(directory).ids() == frozenset()
    assert not (directory / ".c3.new").exists()


def test_an_id_that_leads_elsewhere_is_not_kept(directory: Path) -> None:
    exits = SeenExits(directory)
    exits.note("../c1", 7, AT)
    assert exits.ids() == frozenset()
