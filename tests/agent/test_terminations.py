"""Each end of a container is counted once, even if it is in several statuses of the pod."""

from __future__ import annotations

from collections import Counter
from typing import Any

from syncpod.agent.scraping.terminations import Terminations

Ended = tuple[str, str, str]


def ended(number: int) -> dict[str, Any]:
    return {"terminated": {"containerID": f"containerd://{number}", "exitCode": number, "reason": "Error"}}


def test_an_end_that_a_back_off_hides_for_a_while_is_counted_once() -> None:
    counted: Counter[Ended] = Counter()
    terminations = Terminations(lambda *end: counted.update([end]))
    terminations.take(pod({"state": {"running": {}}}))
    for number in range(1, 5):
        before = {"lastState": ended(number - 1)} if number > 1 else {}
        terminations.take(pod({"state": ended(number), **before}))
        for _ in range(3):
            terminations.take(pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended(number)}))
        terminations.take(pod({"state": ended(number), **before}))
        terminations.take(pod({"state": {"running": {}}, "lastState": ended(number)}))
    assert counted == {("container", str(number), "Error"): 1 for number in range(1, 5)}


def test_what_ended_before_the_first_status_is_not_counted() -> None:
    counted: Counter[Ended] = Counter()
    terminations = Terminations(lambda *end: counted.update([end]))
    terminations.take(pod({"state": ended(2), "lastState": ended(1)}))
    terminations.take(pod({"state": ended(3), "lastState": ended(2)}))
    assert counted == {("container", "3", "Error"): 1}


def pod(status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": "u1"}, "status": {"containerStatuses": [{"name": "app", **status}]}}
