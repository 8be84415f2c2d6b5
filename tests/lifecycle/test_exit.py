"""The record of an exit is the same from each source."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest
from pydantic import TypeAdapter

from syncpod.lifecycle.exit import Exit, reason_of
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer
from syncpod.messages.queries import WireExit

WIRE: Final[TypeAdapter[Exit]] = TypeAdapter(WireExit)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 13, tzinfo=UTC)
ENDED = ObservedContainer(
    id="c1", name="web", sandbox_id="s1", state="exited", exit_code=3, reason="Error", message="no room",
    restart_count=2, started_at=NOON, finished_at=LATER,
)  # fmt: skip


def test_an_exited_container_has_an_exit_record() -> None:
    assert ENDED.exit == Exit(
        id="c1", name="web", restart=2, sandbox="s1", exit_code=3, reason="Error", message="no room",
        started_at=NOON, finished_at=LATER,
    )  # fmt: skip
    assert ENDED.ended_as(ENDED.exit) == ENDED


@pytest.mark.parametrize("state", ["created", "running", "unknown"])
def test_a_container_that_has_not_exited_has_no_exit_record_despite_a_reason(state: ContainerRuntimeState) -> None:
    assert ENDED.model_copy(update={"state": state, "reason": "OOMKilled"}).exit is None


def test_a_view_serialises_an_exit_in_its_existing_fields() -> None:
    assert {"state", "exitCode", "reason", "message", "startedAt", "finishedAt"} <= ENDED.model_dump().keys()
    assert "exit" not in ENDED.model_dump()


def test_an_exit_in_a_snapshot_is_read_back() -> None:
    recorded = (ENDED.exit or Exit()).recorded(LATER, cause="deleted", killed_by="deleted")
    kept = WIRE.dump_python(recorded, mode="json", exclude_defaults=True)
    assert kept == {
        "id": "c1", "name": "web", "restart": 2, "sandbox": "s1", "exitCode": 3, "reason": "Error",
        "message": "no room", "startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T13:00:00Z",
        "at": "2026-01-31T13:00:00Z", "cause": "deleted", "killedBy": "deleted",
    }  # fmt: skip
    assert WIRE.validate_python(kept) == recorded
    kept_by_name = {"id": "c1", "exit_code": 3, "started_at": NOON, "finished_at": LATER, "at": LATER}
    assert WIRE.validate_python(kept_by_name).exit_code == 3


def test_back_offs_run_from_a_recorded_exit_alone() -> None:
    assert Exit(at=LATER, finished_at=NOON).since == LATER
    with pytest.raises(ValueError, match="instance 2 of container web is not recorded"):
        _ = (ENDED.exit or Exit()).since


def test_a_known_exit_is_distinguished_from_an_assumed_one() -> None:
    unknown_to_runtime = Exit(exit_code=255, reason="Unknown", finished_at=LATER)
    assert unknown_to_runtime.is_unknown_to_runtime
    assert not Exit(exit_code=255, reason="Error").is_unknown_to_runtime
    assert Exit(exit_code=1, reason="Error", finished_at=LATER).is_certain
    assert not Exit(exit_code=137, reason="ContainerStatusUnknown", finished_at=LATER).is_certain
    assert not Exit(exit_code=1, reason="Error").is_certain


def test_an_exit_is_described_in_one_phrase() -> None:
    assert (Exit(exit_code=1, reason="Error").how, Exit(exit_code=1).how) == ("1 (Error)", "1")
    assert (reason_of(0), reason_of(7)) == ("Completed", "Error")
