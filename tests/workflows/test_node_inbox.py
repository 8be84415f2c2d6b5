"""A node's inbox: a signal is dropped only if a later one repeats it."""

from __future__ import annotations

from typing import Any

from workflows.node.inbox import NodeInbox
from workflows.signal import Signal


def listed(source: Any, *pods: Any) -> dict[str, Any]:
    return {"source": source, "pods": list(pods)}


def test_the_last_signal_of_a_subject_counts_and_invalid_ones_are_dropped() -> None:
    inbox = NodeInbox()
    came: list[tuple[str, Any]] = [
        ("sync_pods", listed("file", 1)),
        ("sync_pods", listed("team", 1)),
        ("node_status", {"boot": 1}),
        ("apply", {"pod": 1}),
        ("apply", {"pod": 1}),
        ("sync_pods", listed("file", 2)),
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
    inbox.put("sync_pods", (listed("file", 3),))
    assert inbox.take() == [*expected[4:], Signal("sync_pods", (listed("file", 3),))]
    assert inbox.take() == []


def numbered(number: int, *begun: str, boot: int = 7) -> dict[str, Any]:
    return {**listed("file", number), "boot": boot, "number": number, "begun": [{"name": name} for name in begun]}


def test_a_list_that_names_begun_pods_is_not_dropped_for_a_later_one_that_does_not() -> None:
    """Nothing else says that they run: if the later list lacks them too, nobody would end them."""
    inbox = NodeInbox()
    came = [numbered(1), numbered(2, "web"), numbered(3)]
    for payload in came:
        inbox.put("sync_pods", (payload,))
    assert inbox.take() == [Signal("sync_pods", (payload,)) for payload in came[1:]]


def test_a_list_that_comes_late_drops_no_newer_one_of_its_boot() -> None:
    inbox = NodeInbox()
    for payload in (numbered(2), numbered(3), numbered(2), numbered(3)):
        inbox.put("sync_pods", (payload,))
    assert inbox.take() == [Signal("sync_pods", (numbered(3),))]
    for payload in (numbered(3), numbered(1, boot=8)):
        inbox.put("sync_pods", (payload,))
    assert inbox.take() == [Signal("sync_pods", (numbered(1, boot=8),))]
