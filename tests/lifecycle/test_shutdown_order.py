"""The order in which pods end when the machine shuts down, and the time of each."""

from __future__ import annotations

from typing import Any

import pytest

from syncpod.lifecycle.shutdown_order import (
    ShutdownPeriod,
    ShutdownPeriodsInvalid,
    grace_of,
    in_order,
    parse_shutdown_periods,
    periods_text,
    total_seconds,
    two_periods,
)
from syncpod.pod import Pod, parse_pod

CRITICAL = 2_000_000_000
FOUR = parse_shutdown_periods("100=4s,-5=1s,10000=3s,1000=2s")
SECOND = 10**9


def pod(name: str = "web", **spec: Any) -> Pod:
    containers = [{"name": "app", "image": "busybox"}]
    return parse_pod(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    )


@pytest.mark.parametrize(
    ("priority", "group"),
    [
        (None, -5), (0, -5), (-5, -5), (-6, -5), (-(2**31), -5), (99, -5), (100, 100), (101, 100), (999, 100),
        (1000, 1000), (9_999, 1000), (10_000, 10_000), (10_001, 10_000), (CRITICAL, 10_000), (2**31 - 1, 10_000),
    ],
)  # fmt: skip
def test_a_pod_is_in_the_group_of_the_next_lower_priority_or_in_the_lowest(priority: int | None, group: int) -> None:
    [(period, [found])] = in_order(FOUR, [pod(priority=priority)])
    assert (period.priority, found.spec.priority) == (group, priority)


def test_groups_end_from_the_lowest_on_and_those_without_pods_are_left_out() -> None:
    pods = [pod("high", priority=CRITICAL), pod("low"), pod("middle", priority=1500), pod("other")]
    found = [(period.priority, [each.metadata.name for each in group]) for period, group in in_order(FOUR, pods)]
    assert found == [(-5, ["low", "other"]), (1000, ["middle"]), (10_000, ["high"])]
    assert in_order(FOUR, []) == []


@pytest.mark.parametrize(
    ("own", "of_group", "grace"),
    [(None, 20, 20), (30, 20, 20), (20, 20, 20), (5, 20, 5), (0, 20, 1), (30, 0, 1), (None, 0, 1)],
)
def test_a_pod_has_its_own_grace_but_no_more_than_its_group(own: int | None, of_group: int, grace: int) -> None:
    assert grace_of(ShutdownPeriod(0, of_group), pod(terminationGracePeriodSeconds=own)) == grace


@pytest.mark.parametrize(
    ("requested", "critical", "periods"),
    [
        (0, 0, ()),
        (30 * SECOND, 10 * SECOND, ((0, 20), (CRITICAL, 10))),
        (30 * SECOND, 0, ((0, 30), (CRITICAL, 0))),
        (30 * SECOND, 30 * SECOND, ((0, 0), (CRITICAL, 30))),
        (2 * SECOND + 1, SECOND + SECOND // 2, ((0, 0), (CRITICAL, 1))),
    ],
)
def test_the_two_older_fields_mean_two_groups(requested: int, critical: int, periods: tuple[Any, ...]) -> None:
    assert two_periods(requested, critical) == periods


def test_what_is_written_is_read() -> None:
    assert FOUR == ((-5, 1), (100, 4), (1000, 2), (10_000, 3))
    assert parse_shutdown_periods(periods_text(FOUR)) == FOUR
    assert total_seconds(FOUR) == 10
    assert parse_shutdown_periods(" 0 = 1m30s , ") == ((0, 90),)
    assert parse_shutdown_periods("") == ()


@pytest.mark.parametrize(
    "text",
    ["20s", "a=20s", "0=", "0=1.5s", "0=-1s", "0=25h", "0=1s,0=2s", f"{2**31}=1s", "0=1s=2", "=1s", "0=999999999h"],
)
def test_what_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ShutdownPeriodsInvalid, match="must be a priority, each once"):
        parse_shutdown_periods(text)
