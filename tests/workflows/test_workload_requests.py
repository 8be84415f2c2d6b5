"""When a workload queries its nodes, on values, without a server and with a fixed clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio import workflow

from tests.workflows.test_workload_changes import NOW, OWNER, applied, known
from workflows.fleet.open_requests import OpenRequests
from workflows.fleet.workload_requests import WorkloadRequests


def questions(kind: str, monkeypatch: pytest.MonkeyPatch) -> WorkloadRequests:
    """Return the requests of a workload that surveyed its nodes ten seconds ago."""
    state = applied(kind)
    known(state)
    asked = WorkloadRequests(state, OWNER.format(kind=kind), OpenRequests(lambda: None))
    asked.surveyed_at = NOW - timedelta(seconds=10)
    monkeypatch.setattr(workflow, "now", lambda: NOW)
    return asked


def test_a_daemon_set_surveys_at_once_for_a_node_that_takes_pods_now(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("DaemonSet", monkeypatch)
    assert asked.next_due() == NOW + timedelta(seconds=50)
    asked.room()
    assert asked.next_due() == NOW + timedelta(seconds=1)


def test_nodes_that_come_back_one_by_one_are_surveyed_no_more_than_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = questions("DaemonSet", monkeypatch)
    asked.surveyed_at = NOW - timedelta(seconds=1)
    for _ in range(100):
        asked.room()
    assert asked.next_due() == NOW + timedelta(seconds=4)


def test_a_node_that_joins_while_the_first_survey_is_under_way_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("DaemonSet", monkeypatch)
    asked.surveyed_at = None
    asked.room()
    asked.surveyed_at = NOW
    assert asked.next_due() == NOW + timedelta(seconds=1)


def test_a_workload_that_surveys_no_nodes_does_not_begin_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions("Deployment", monkeypatch)
    asked.room()
    assert asked.next_due() is None
