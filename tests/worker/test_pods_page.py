"""The section of a node's page in the Temporal UI that lists its pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from syncpod.messages.queries import PodSummary
from syncpod.temporal.pods_page import pods_page


@dataclass
class Pod:
    """A pod that counts how often its details are read."""

    name: str
    is_unready: bool = True
    why: str = ""
    status: str = "CrashLoopBackOff"
    restarts: int = 3
    looks: list[str] = field(default_factory=list)

    def summary(self) -> PodSummary:
        self.looks.append(self.name)
        return PodSummary(f"default/{self.name}", self.status, self.restarts, self.why)


def test_pods_that_are_not_ready_are_named_before_the_others() -> None:
    ready = Pod("a-ready", is_unready=False, status="Running", restarts=0)
    page = pods_page([Pod("b", why="app: exit 3\nagain"), ready, Pod("a", restarts=1)])
    assert page.splitlines() == [
        "**Pods of this worker**: 2 not ready, 1 ready or completed",
        "",
        "- **default/a**: CrashLoopBackOff, 1 restart",
        "- **default/b**: CrashLoopBackOff, 3 restarts: app: exit 3 again",
        "- **default/a-ready**: Running",
    ]


def test_a_page_is_bounded_and_looks_at_no_more_than_it_shows() -> None:
    pods = [Pod(f"p{number:04}", is_unready=number >= 20, why="x" * 5_000) for number in range(1_000)]
    page = pods_page(pods)
    assert "980 not ready, 20 ready" in page and "950 more are not shown." in page
    assert sum(len(pod.looks) for pod in pods) == 50
    assert len(page) < 12_000


def test_a_node_without_pods_has_nothing_to_say_of_them() -> None:
    assert pods_page([]) == ""
