"""Changes beside the list of manifests: what of a list is measured anew, and what the list waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from syncpod.agent import first_calls
from syncpod.agent.agent import Agent
from syncpod.agent.first_calls import FirstCalls
from syncpod.agent.node_workflow import early_changes
from syncpod.agent.node_workflow.early_changes import DocumentSizes, EarlyChanges
from syncpod.agent.node_workflow.node_signals import NodeSignals
from syncpod.messages.identity import PodRef
from syncpod.messages.node import document_size


def test_only_the_new_documents_of_a_list_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def counted(document: dict[str, Any]) -> int:
        measured.append(document["name"])
        return document_size(document)

    monkeypatch.setattr(early_changes, "document_size", counted)
    a, b, c = ({"name": name, "says": "é" * 100} for name in "abc")
    sizes = DocumentSizes()
    assert sizes.all_of((a, b)) == document_size(a) + document_size(b)
    assert sizes.all_of((b, c)) == document_size(b) + document_size(c)
    assert measured == ["a", "b", "c"]
    assert sizes.all_of((a,)) == document_size(a) > 600
    assert measured == ["a", "b", "c", "a"], "a document that is gone is not kept, since its id may become another's"


async def test_the_list_without_a_pod_waits_until_the_step_that_ends_it_has_asked_the_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_calls, "PATIENCE_SECONDS", 600.0)
    ref, answer = PodRef(namespace="default", name="web", uid="u1"), asyncio.get_running_loop().create_future()
    changes, calls = changes_with(lambda _: answer)
    ending = changes.end(ref)
    assert ending is not None
    answer.set_result({"uid": "u1"})
    for _ in range(20):
        await asyncio.sleep(0)
    assert not ending.done()
    calls.asked("u1")
    await ending


async def test_the_list_without_a_pod_waits_for_nothing_if_its_workflow_has_not_answered() -> None:
    answer = asyncio.get_running_loop().create_future()
    answer.set_result(None)
    changes, _ = changes_with(lambda _: answer)
    ending = changes.end(PodRef(namespace="default", name="web", uid="u1"))
    assert ending is not None
    await ending
    assert changes_with(lambda _: None)[0].end(PodRef(namespace="default", name="web", uid="u1")) is None


def changes_with(begin: Callable[[PodRef], asyncio.Future[Any] | None]) -> tuple[EarlyChanges, FirstCalls]:
    """Changes of a node whose workflow is certain to end each pod."""
    published, calls = SimpleNamespace(answer=lambda *_: True), FirstCalls()
    agent = SimpleNamespace(
        published_pods=SimpleNamespace(newest=lambda _: SimpleNamespace(published=published)),
        early_ends=SimpleNamespace(begin=begin),
        early_starts=SimpleNamespace(calls=calls),
    )
    return EarlyChanges(cast(Agent, agent), "n1", 1, cast(NodeSignals, SimpleNamespace(number=1))), calls
