"""Whose commands the journal asks the server for."""

from datetime import UTC, datetime

import pytest

from syncpod.agent.senders import is_command
from syncpod.journal.causes import changes_of
from syncpod.journal.records import Line

NOW = datetime(2026, 11, 26, 7, tzinfo=UTC)


@pytest.mark.parametrize("signal", ["restart", "set_condition"])
def test_the_sender_of_each_signal_that_explain_shows_as_a_change_is_asked_for(signal: str) -> None:
    line = Line(NOW, "signal", signal, "example.com/ready is True")
    assert changes_of([line])
    assert is_command(line)


@pytest.mark.parametrize("signal", ["pleg", "probe", "backoff_expired"])
def test_nobody_is_asked_who_sent_what_the_agent_sends(signal: str) -> None:
    assert not is_command(Line(NOW, "signal", signal, "container app exited"))
