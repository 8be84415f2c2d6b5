"""The part of a node's page that names its pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from syncpod.messages.glance import Glance
from syncpod.temporal.pods_page import pods_page


@dataclass
class Pod:
    """A pod that counts how often it is looked at closely."""

    name: str
    is_unready: bool = True
    why: str = ""
    looks: list[str] = field(default_factory=list)

    def glance(self) -> Glance:
        self.looks.append(self.name)
        return Glance(f"default/{self.name}", "CrashLoopBackOff", 3, self.why)


def test_pods_that_are_not_ready_are_named_and_others_counted() -> None:
    ready = Pod("ready", is_unready=False)
    page = pods_page([Pod("b", why="app: exit |3|\nagain"), ready, Pod("a")])
    assert page.splitlines() == [
        "Pods of this worker: 2 not ready, 1 ready or completed",
        "",
        "| pod | status | restarts | why |",
        "|---|---|---|---|",
        "| default/a | CrashLoopBackOff | 3 |  |",
        r"| default/b | CrashLoopBackOff | 3 | app: exit \|3\| again |",
    ]
    assert ready.looks == []


def test_a_page_is_bounded_and_looks_at_no_more_than_it_shows() -> None:
    pods = [Pod(f"p{number:04}", why="x" * 5_000) for number in range(1_000)]
    page = pods_page(pods)
    assert "1000 not ready, 0 ready" in page and "950 more that are not ready are not shown." in page
    assert sum(len(pod.looks) for pod in pods) == 50
    assert len(page) < 12_000


def test_a_node_without_pods_has_nothing_to_say_of_them() -> None:
    assert pods_page([]) == ""
    assert pods_page([Pod("ready", is_unready=False)]) == "Pods of this worker: 0 not ready, 1 ready or completed"
