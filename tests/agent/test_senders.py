"""The commands for which the journal asks the server who sent them."""

from datetime import UTC, datetime

import pytest

from syncpod.journal.causes import changes_of
from syncpod.journal.records import Fact, HistoryEntry

NOW = datetime(2026, 11, 26, 7, tzinfo=UTC)


@pytest.mark.parametrize("signal", ["restart", "set_condition"])
def test_the_sender_of_each_signal_that_explain_shows_as_a_change_is_asked_for(signal: str) -> None:
    line = HistoryEntry(NOW, "signal", signal, "example.com/ready is True", fact=Fact.ASKED)
    assert changes_of([line])
    assert line.is_command


@pytest.mark.parametrize("signal", ["pleg", "probe", "backoff_queue"])
def test_nobody_is_asked_who_sent_what_the_agent_sends(signal: str) -> None:
    line = HistoryEntry(NOW, "signal", signal, reason="Secret s has come or changed: the back-off of operator ends")
    assert not line.is_command and changes_of([line]) == []


def test_the_sender_of_a_person_who_ends_a_back_off_is_asked_for_but_not_who_made_the_pod() -> None:
    assert HistoryEntry(NOW, "signal", "backoff_expired", "app", fact=Fact.BACK_OFF_ENDED).is_command
    assert not HistoryEntry(NOW, "update", "apply", reason="generation 1", fact=Fact.MADE).is_command
