from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from syncpod.agent.server_outage import ANOTHER_SERVER, ServerOutage


def test_a_long_server_outage_is_logged_in_a_few_lines() -> None:
    now, said = [0.0], list[str]()
    outage = ServerOutage(lambda: now[0])
    handler = logging.Handler()
    handler.emit = lambda record: said.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
    handler.addFilter(outage)
    logger = logging.getLogger("syncpod.agent.server_outage")
    logger.addHandler(handler)
    core = logging.getLogger("temporalio.core-test")
    core.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        outage.looked(None)
        for second in range(3600):
            now[0] = second
            core.warning("gRPC call %s retried 9 times {'error': 'Status { tcp connect error }'}", "poll")
            if second == 100:
                core.warning("something else")
        outage.looked(None)
        outage.looked(None)
    finally:
        logger.removeHandler(handler)
        core.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert said[0] == "WARNING the Temporal server does not answer; pods keep running, and messages to the server wait"
    assert said[-1] == "INFO the Temporal server answers again, after 3599 s"
    assert "WARNING something else" in said
    away = [int(line.split()[-2]) for line in said if "has not answered for" in line]
    assert away == [30, 90, 210, 450, 930, 1530, 2130, 2730, 3330]


def test_what_is_said_of_the_fleets_server_is_no_outage_of_the_nodes_own() -> None:
    outage = ServerOutage(lambda: 0.0)
    text = "fleet f at gate:7300 does not answer, or does not let this node in: transport error"
    record = logging.LogRecord(ANOTHER_SERVER, logging.WARNING, "", 0, text, (), None)
    assert outage.filter(record)
    assert (record.name, record.getMessage()) == (ANOTHER_SERVER, text)
    own = logging.LogRecord("temporalio.core", logging.WARNING, "", 0, "transport error", (), None)
    assert outage.filter(own)
    assert own.getMessage().startswith("the Temporal server does not answer"), "there was none before"


def test_a_server_that_hangs_is_logged_by_the_checks_that_it_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """It refuses no connection, so nothing else logs a sign of the outage."""
    now = [0.0]
    outage = ServerOutage(lambda: now[0])
    caplog.set_level(logging.INFO, "syncpod.agent.server_outage")
    for second in range(0, 60, 10):
        now[0] = second
        outage.looked(datetime(2026, 1, 1, tzinfo=UTC))
    outage.looked(None)
    assert caplog.messages == [
        "the Temporal server does not answer; pods keep running, and messages to the server wait",
        "the Temporal server has not answered for 30 s",
        "the Temporal server answers again, after 50 s",
    ]
