"""A text from outside uses a limited size of a workflow's state, whatever characters it has.

A pod keeps a hundred events and two hundred lines of history, and its state is one payload of at most 2 MiB.

Holds: No limit of the server is exceeded.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from syncpod.messages.queries import LONGEST_TEXT, LONGEST_TEXT_BYTES, clipped
from syncpod.pod.wire import json_size
from workflows import event_log
from workflows.pod.start import LARGEST, next_input, snapshot
from workflows.pod.state import EVENTS_KEPT, HISTORY_KEPT, PodState

NOW = datetime(2026, 11, 28, tzinfo=UTC)
TEXTS = {"control bytes": "\x01" * 1000, "pictures": "\U0001f600" * 1000, "Chinese": "\u4e2d" * 1000}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_cut_by_its_size_as_json(text: str) -> None:
    assert json_size(clipped(text)) <= LONGEST_TEXT_BYTES
    assert json_size(event_log.clipped(text)) <= event_log.TEXT_BYTES


def test_a_plain_text_is_cut_by_its_length() -> None:
    assert clipped("x" * 2000) == "x" * (LONGEST_TEXT - 1) + "…"
    assert clipped("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    assert event_log.clipped("x" * 2000) == "x" * (event_log.TEXT_LIMIT - 1) + "…"


def test_events_and_history_full_of_the_largest_texts_leave_room_for_the_pod() -> None:
    """It may be of 512 KiB, with another one that replaces it."""
    state = PodState()
    for number in range(max(EVENTS_KEPT, HISTORY_KEPT)):
        text = f"{number}{TEXTS['pictures']}"
        state.event(NOW, "Warning", "Unhealthy", text, "c")
        state.note(NOW, "step", "start_container", text)
    assert len(state.events) == EVENTS_KEPT and len(state.history) == HISTORY_KEPT
    assert len(json.dumps(snapshot(state))) < 2 * 1024**2 - 2 * 512 * 1024 - 200_000


def test_a_snapshot_that_the_server_would_not_take_is_without_its_oldest_records() -> None:
    """The pod continues, with its newest records."""
    large = {"metadata": {"name": "web"}, "text": "x" * 1_400_000}
    state = PodState(successor=large)
    for number in range(HISTORY_KEPT):
        state.event(NOW, "Warning", "Unhealthy", f"{number}{TEXTS['pictures']}", "c")
        state.note(NOW, "step", "start_container", f"{number}{TEXTS['pictures']}")
    assert len(json.dumps(snapshot(state))) > LARGEST
    taken = next_input(state)["snapshot"]
    assert len(json.dumps(taken)) <= LARGEST + 10_000, "spaces apart"
    assert taken["successor"] == large
    assert [each["message"][:3] for each in taken["events"]] == [str(number) for number in range(190, 200)]
    assert len(state.history) == HISTORY_KEPT, "the run itself keeps all"
