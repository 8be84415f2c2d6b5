"""Whether a pod's start has reached a container: everything before it is as expected, and nothing else exists.

Holds: A container that was created before its turn is never started out of turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from syncpod.messages import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.messages.startup import has_come_to, in_order
from syncpod.pod import Pod, admit_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOME = ObservedSandbox(id="home", state="SANDBOX_READY")


def pod(**first_init: Any) -> Pod:
    """A pod of two init containers, a and b, and two others, x and y."""
    inits = [{"name": "a", "image": "i", **first_init}, {"name": "b", "image": "i"}]
    mains = [{"name": name, "image": "i"} for name in "xy"]
    return admit_pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"initContainers": inits, "containers": mains},
        }
    )


def done(name: str, **other: Any) -> ObservedContainer:
    known = {"id": name, "name": name, "sandbox_id": "home", "state": "exited", "reason": "Completed"}
    return ObservedContainer.model_validate(known | {"started_at": NOW, "finished_at": NOW} | other)


def runs(name: str, **other: Any) -> ObservedContainer:
    return done(name, **{"state": "running", "reason": "", "finished_at": None} | other)


def comes(to: str, *containers: ObservedContainer, sandboxes: Sequence[ObservedSandbox] = (HOME,), **init: Any) -> bool:
    view = ObservedPod(sandboxes=tuple(sandboxes), containers=containers).ordered()
    return has_come_to(pod(**init), view, to, "home")


def test_a_start_takes_the_containers_in_order() -> None:
    assert [each.name for each in in_order(pod())] == ["a", "b", "x", "y"]
    assert comes("a")
    assert comes("b", done("a"))
    assert comes("x", done("a"), done("b"))
    assert comes("y", done("a"), done("b"), runs("x"))


def test_what_the_container_itself_has_made_is_no_hindrance() -> None:
    assert comes("b", done("a"), runs("b"))


def test_only_the_newest_instance_counts() -> None:
    assert comes("b", done("a", id="second", restart_count=1), done("a", exit_code=1))
    assert not comes("b", done("a", id="second", restart_count=1, exit_code=1), done("a"))


@pytest.mark.parametrize(
    "there",
    [
        (),
        (runs("a"),),
        (done("a", exit_code=3),),
        (done("a", reason="ContainerStatusUnknown"),),
        (done("a", sandbox_id="another"),),
        (done("a"), runs("x")),
        (done("a"), runs("debugger")),
    ],
    ids=["nothing", "still runs", "failed", "nobody saw its end", "elsewhere", "a later one runs", "a stranger runs"],
)
def test_it_has_not_come_to_a_container_if_anything_is_unusual(there: Sequence[ObservedContainer]) -> None:
    assert not comes("b", *there)


def test_a_main_container_that_has_ended_is_unusual() -> None:
    assert not comes("y", done("a"), done("b"), done("x"))


def test_a_pod_with_a_sidecar_has_no_simple_start() -> None:
    assert not comes("b", done("a"), restartPolicy="Always")


@pytest.mark.parametrize(
    "sandboxes",
    [
        (),
        (HOME.model_copy(update={"state": "SANDBOX_NOTREADY"}),),
        (HOME.model_copy(update={"id": "another"}),),
        (HOME, HOME.model_copy(update={"id": "another", "attempt": 1})),
    ],
)
def test_the_pod_has_that_sandbox_and_no_other_that_lives(sandboxes: Sequence[ObservedSandbox]) -> None:
    assert not comes("b", done("a"), sandboxes=sandboxes)
