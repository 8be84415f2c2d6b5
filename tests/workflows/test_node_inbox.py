"""A node's inbox: a signal is dropped only if a later one repeats it."""

from __future__ import annotations

from typing import Any

from syncpod.messages.node import StaticPods
from workflows.entity import Signal
from workflows.node.inbox import NodeInbox


def listed(source: Any, *pods: Any) -> dict[str, Any]:
    return {"source": source, "pods": list(pods)}


def test_the_last_signal_of_a_subject_counts_and_invalid_ones_are_dropped() -> None:
    inbox = NodeInbox()
    came: list[tuple[str, Any]] = [
        ("sync_pods", listed("crew", 1)),
        ("sync_pods", listed("team", 1)),
        ("node_status", {"boot": 1}),
        ("apply", {"pod": 1}),
        ("apply", {"pod": 1}),
        ("sync_pods", listed("crew", 2)),
        ("sync_pods", {"source": "team", "pods": 3}),
        ("node_status", {"boot": "1"}),
        ("recall_pods", listed("team")),
        ("node_status", {"boot": 2}),
        ("sync_pods", listed(["team"])),
    ]
    for name, payload in came:
        inbox.put(name, (payload,))
    inbox.put("sync_pods", (listed("team"), {}))
    kept = [came[index] for index in (1, 3, 4, 5, 6, 7, 8, 9, 10)]
    expected = [Signal(name, (payload,)) for name, payload in kept]
    expected.append(Signal("sync_pods", (listed("team"), {})))
    assert len(inbox) == len(expected)
    assert inbox.take(4) == expected[:4]
    inbox.put("sync_pods", (listed("crew", 3),))
    assert inbox.take() == [*expected[4:], Signal("sync_pods", (listed("crew", 3),))]
    assert inbox.take() == []


def test_a_report_of_static_pods_that_says_something_once_is_not_dropped_for_a_later_one() -> None:
    inbox = NodeInbox()
    once = [{"boot": 1, "gone": [{"name": "web"}]}, {"boot": 1, "problems": ["web.yaml: is no pod"]}]
    once.append(StaticPods(boot=1, begun_anew=("pod web begins anew",)).model_dump(mode="json", by_alias=True))
    for payload in ({"boot": 1}, {"boot": 1, "pods": []}, *once, {"boot": 2}):
        inbox.put("static_pods", (payload,))
    expected = [Signal("static_pods", (payload,)) for payload in (*once, {"boot": 2})]
    assert inbox.take() == expected
