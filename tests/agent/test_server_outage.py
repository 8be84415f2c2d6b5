from __future__ import annotations

import logging

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
        outage.over()
        for second in range(3600):
            now[0] = second
            core.warning("gRPC call %s retried 9 times {'error': 'Status { tcp connect error }'}", "poll")
            if second == 100:
                core.warning("something else")
        outage.over()
        outage.over()
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
