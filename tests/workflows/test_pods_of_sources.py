"""A pod of a manifest file or of a cluster is changed by its source alone, whichever command or message tries it.

Holds: Only its source changes a pod of a manifest file or of a cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from syncpod.pod import admit
from tests.workflows.scripted import ScriptedNode, query_pod, start_pod, until
from tests.workflows.test_pod_workflow import manifest
from workflows.pod import absorb, desired
from workflows.pod.state import PodState
from workflows.rejections import Rejected

UID = "0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 11, 30, tzinfo=UTC)
SOURCE, HASH, SEEN = (f"kubernetes.io/config.{name}" for name in ("source", "hash", "seen"))
Document = dict[str, Any]

FILE = "it comes from the manifest directory of node {}: change its file there"
CLUSTER = "it comes from the Kubernetes cluster of node {}: change it there, by kubectl"


def of(source: str) -> Document:
    """Return the document with which a source starts its pod."""
    document = manifest()
    marks = {SOURCE: source, HASH: UID, SEEN: "2026-11-30T00:00:00Z"}
    document["metadata"] |= {"uid": UID, "annotations": marks}
    return document


def has_begun(pod: Document) -> bool:
    """Say whether the pod has its sandbox: a cluster's pod waits then for the cluster's services."""
    return bool(pod.get("status", {}).get("podIP"))


def other_image(pod: Document) -> None:
    pod["spec"]["containers"][0]["image"] = "busybox:9"


def labelled(pod: Document) -> None:
    pod["metadata"]["labels"] = {"a": "b"}


def unmarked(pod: Document) -> None:
    for name in (SOURCE, HASH):
        pod["metadata"]["annotations"].pop(name, None)


async def refusal(handle: WorkflowHandle[Any, Any], document: Document) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("apply", document)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "Invalid"
    return refused.value.cause.message


@pytest.mark.parametrize(("source", "why"), [("file", FILE), ("kubernetes", CLUSTER)])
async def test_its_own_document_is_refused_if_a_person_has_changed_it(
    client: Client, node: ScriptedNode, source: str, why: str
) -> None:
    """As by `get -o yaml | sed | apply`, edit, patch, set image, label or annotate; and by raw updates and signals."""
    handle = await start_pod(client, node, of(source))
    before = await until(handle, has_begun)
    told = why.format(node.queue.removeprefix("node/"))
    for change in (other_image, unmarked, labelled):
        document = copy.deepcopy(before)
        change(document)
        assert await refusal(handle, document) == told
        assert (await handle.query("plan", document))["error"] == told
    assert await refusal(handle, manifest(containers=[{"name": "web", "image": "busybox:9"}])) == told
    await handle.signal("update_pod", document)
    said = [event["message"] for event in await handle.query("events") if event["reason"] == "Rejected"]
    assert said == [f"signal update_pod: {told}"]
    assert (await query_pod(handle))["metadata"] == before["metadata"]
    assert (await query_pod(handle))["spec"] == before["spec"]


async def test_a_repeat_of_its_own_document_is_no_change(client: Client, node: ScriptedNode) -> None:
    handle = await start_pod(client, node, of("file"))
    before = await until(handle, has_begun)
    assert (await handle.execute_update("apply", before))["change"] == "unchanged"
    assert (await query_pod(handle))["metadata"] == before["metadata"]


@pytest.mark.parametrize("source", ["file", "kubernetes"])
async def test_its_source_changes_it(client: Client, node: ScriptedNode, source: str) -> None:
    """A file may set the UID of its pod, and a cluster always does: then the document changes under it."""
    handle = await start_pod(client, node, of(source))
    before = await until(handle, has_begun)
    changed = of(source)
    changed["metadata"]["name"] = before["metadata"]["name"]
    other_image(changed)
    labelled(changed)
    assert (await handle.execute_update("apply", changed))["change"] == "configured"
    after = await query_pod(handle)
    assert (after["spec"]["containers"][0]["image"], after["metadata"]["labels"]) == ("busybox:9", {"a": "b"})


@pytest.mark.parametrize("change", [other_image, labelled, unmarked])
@pytest.mark.parametrize("source", ["fleet", "team"])
def test_a_pod_of_another_list_changes_but_keeps_its_marks(source: str, change: Callable[[Document], None]) -> None:
    document = of(source)
    state = PodState(pod=admit(document).pod)
    marks = dict(document["metadata"]["annotations"])
    del document["metadata"]["uid"]
    change(document)
    desired.require_source(state, document, NOW)
    desired.apply(state, document, NOW)
    assert state.pod.metadata.annotations == marks


def test_an_applied_pod_gets_no_marks_by_hand() -> None:
    document = of("file")
    bare = copy.deepcopy(document)
    del bare["metadata"]["annotations"]
    state = PodState(pod=admit(bare).pod)
    del document["metadata"]["uid"]
    desired.apply(state, document, NOW)
    assert state.pod.metadata.annotations == {}


def test_no_other_pod_of_its_name_follows_it_while_it_ends() -> None:
    """Its file may be there still: only its source says which pod follows."""
    listed = of("file")
    state = PodState(pod=admit(listed).pod)
    absorb.UPDATES["delete"](state, ({},), NOW)
    assert state.deletion is not None
    copied = copy.deepcopy(listed)
    del copied["metadata"]["uid"]
    with pytest.raises(Rejected, match="manifest directory"):
        absorb.check(state, "apply", (copied,), NOW)
    absorb.check(state, "apply", (listed,), NOW)
