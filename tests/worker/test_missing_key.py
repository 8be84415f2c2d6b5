"""A fleet's worker that lacks a key logs one sentence per minute with what to do."""

from __future__ import annotations

import logging
import sys

import pytest

from syncpod.messages.encryption import Undecipherable
from syncpod.temporal.missing_key import REPEAT_SECONDS, WHAT_TO_DO, MissingKey, UnopenedAnswers


def record(
    error: Exception | None, name: str = "temporalio.worker._workflow", text: str = "Failed"
) -> logging.LogRecord:
    """A log record of the SDK."""
    if error is None:
        return logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)
    try:
        raise error
    except Exception:  # noqa: BLE001  # just that one
        return logging.LogRecord(name, logging.ERROR, "", 0, text, (), sys.exc_info())


def test_a_missing_key_is_told_in_one_sentence_a_minute_and_nothing_else_is_changed() -> None:
    times = iter((0.0, REPEAT_SECONDS - 1, REPEAT_SECONDS))
    limits = MissingKey(lambda: next(times))
    first, second, third = (record(Undecipherable("it is encrypted with key 'ab'")) for _ in range(3))
    assert [limits.filter(each) for each in (first, second, third)] == [True, False, True]
    cannot = "workflows of the fleet cannot go on, since one of them cannot be read: it is encrypted with key 'ab': "
    assert (first.getMessage(), first.exc_info) == (cannot + WHAT_TO_DO, None)
    assert not limits.filter(record(None, "temporalio.core.worker", "failed: Undecipherable: it is encrypted"))
    other = record(ValueError("a defect"))
    assert limits.filter(other) and other.exc_info is not None


def test_an_answer_that_no_key_here_opens_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    times = iter((0.0, REPEAT_SECONDS - 1, REPEAT_SECONDS))
    unopened = UnopenedAnswers(lambda: next(times))
    for node in ("a", "b", "c"):
        unopened.say(node, ["k1", "k2"])
    first, second = (each.getMessage() for each in caplog.records)
    assert first.startswith("an answer of node a is sealed for key k1, k2, which the fleet does not have here: if ")
    assert second.startswith("an answer of node c ")
