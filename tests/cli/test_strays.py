"""What runs without a workflow, where a name is that of several pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncpod.cli.strays import Standing, Stray, taken, told_apart
from syncpod.cri.inventory import PodInRuntime
from syncpod.cri.port import ContainerSummary, SandboxSummary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stray(uid: str, standing: Standing, *, made: int = 0, runs: bool = True, namespace: str = "default") -> Stray:
    at = NOON + timedelta(seconds=made)
    sandbox = SandboxSummary(f"s-{uid}", 0, uid, "cat", namespace, "SANDBOX_READY", at, {}, {}, "")
    container = ContainerSummary(
        id=f"c-{uid}",
        name="main",
        attempt=0,
        sandbox_id=sandbox.id,
        state="running" if runs else "exited",
        created_at=at,
        image="",
        image_ref="",
        labels={},
        annotations={},
    )
    return Stray(PodInRuntime(namespace, "cat", uid, "", "", (sandbox,), (container,)), None, standing)


def standings(*strays: Stray) -> dict[str, Standing]:
    return {each.pod.uid: each.standing for each in told_apart(strays)}


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_without_a_workflow_one_can_have_the_name_whatever_their_order(order: int) -> None:
    namesakes = [stray("a", "none"), stray("b", "none", made=1), stray("c", "none", made=2, runs=False)]
    assert standings(*namesakes[::order]) == {"a": "another", "b": "none", "c": "another"}


def test_who_has_the_name_keeps_it() -> None:
    assert standings(stray("a", "another"), stray("b", "open")) == {"a": "another", "b": "open"}
    assert standings(stray("a", "none")) == {"a": "none"}


def test_the_one_whose_name_is_anothers_is_told_apart_by_its_uid() -> None:
    assert stray("a", "none").called == "pod/cat"
    assert stray("a", "another").called == "pod/cat (uid a)"
    assert stray("a", "another", namespace="prod").called == "pod/cat in namespace prod (uid a)"


def test_why_it_cannot_be_adopted_names_commands_that_can_be_typed() -> None:
    said = taken(stray("a", "another", namespace="prod"))
    assert said.startswith('pod "cat" (uid a) cannot be adopted, since its name is another pod\'s now')
    assert "`syncpod prune -n prod cat`" in said and "`syncpod delete -n prod pod cat`" in said
