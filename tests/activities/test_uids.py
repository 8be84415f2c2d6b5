"""A UID belongs to one pod of a node; another pod with that UID can neither read nor end anything of the first.

Holds: On a node, a UID belongs to one pod.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from activities.foresee_admission import foresee_admission
from activities.node.uid_owners import UidOwners
from syncpod.messages.identity import PodRef
from syncpod.messages.steps import Fault, Outcome
from syncpod.node.directories import make_directories, own_directories
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.pod import admit_pod
from syncpod.translation.context import NodeContext
from tests.activities.bench import Bench, fault_of
from tests.translation.translation import NODE, make_pod

FIRST, SECOND = (PodRef(namespace=namespace, name="web", uid="u1") for namespace in ("a", "b"))
TAKEN = (
    "metadata.uid: u1 belongs to pod a/web on this node: leave it out, or delete that pod first "
    "(`syncpod prune -n a web` on that node if it runs without a workflow)"
)


@pytest.fixture
def node(tmp_path: object) -> NodeContext:
    from pathlib import Path

    directory = Path(str(tmp_path))
    return replace(NODE, state_dir=directory / "state", memory_dir=directory / "memory", log_dir=directory / "logs")


async def test_the_first_pod_owns_a_uid_until_its_record_is_removed(node: NodeContext) -> None:
    owners = UidOwners(node)
    assert await owners.refusal(SECOND) == ""
    assert [await owners.bind(ref) for ref in (FIRST, SECOND, FIRST)] == ["", TAKEN, ""]
    owners.release(SECOND)
    assert await owners.bind(SECOND) == await owners.refusal(SECOND) == TAKEN
    owners.release(FIRST)
    assert await owners.bind(SECOND) == ""
    assert "b/web" in await owners.bind(FIRST)


async def test_the_end_of_a_life_leaves_the_uid_to_the_next_life_of_the_same_pod(node: NodeContext) -> None:
    """The next life of a static pod binds its UID before it waits until the remains of the last one are removed."""
    owners = UidOwners(node)
    last, this = (FIRST.model_copy(update={"incarnation": incarnation}) for incarnation in ("life-1", "life-2"))
    assert [await owners.bind(ref) for ref in (last, this)] == ["", ""]
    owners.release(last)
    assert await owners.bind(SECOND) == TAKEN
    owners.release(this)
    assert await owners.bind(SECOND) == ""


async def test_a_new_worker_finds_the_owner_of_a_uid_in_the_record(node: NodeContext) -> None:
    pod = make_pod({}, uid="u1", name="web")
    make_directories(own_directories("u1", node))
    write_pod_record(node, PodRecord(pod=pod))
    theirs = PodRef(namespace="elsewhere", name="web", uid="u1")
    assert f"belongs to pod {pod.metadata.namespace}/web on this node" in await UidOwners(node).bind(theirs)


async def test_the_uid_of_a_pod_that_has_left_its_remains_to_the_node_is_free(bench: Bench) -> None:
    """Its workflow has ended, so whoever deleted it may apply another pod with that UID at once."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    first = bench.pod(volumes=scratch)
    await first.create_sandbox()
    file = first.directory / "volumes" / "kubernetes.io~empty-dir" / "scratch" / "file"
    file.write_text("of the first")
    second = bench.pod(uid=first.uid, name="second", incarnation="life-2", volumes=scratch)
    assert "belongs to pod" in await bench.node.uids.refusal(second.ref)
    assert (await first.delete()).over
    assert await bench.node.uids.refusal(second.ref) == ""
    assert await UidOwners(bench.node.context).refusal(second.ref) == "", "nor does a new worker refuse it"
    made = await second.create_sandbox()
    assert made.id and not file.exists()
    assert [each.id for each in (await second.view()).sandboxes] == [made.id]
    assert "belongs to pod" in await bench.node.uids.refusal(first.ref)


async def test_a_pod_with_another_pods_uid_neither_starts_nor_ends_containers(bench: Bench) -> None:
    """As tried: two pods of two namespaces shared an emptyDir, and each showed the other's data."""
    first = bench.pod()
    await first.create_sandbox()
    await first.start()
    second = bench.pod(uid=first.uid, incarnation="life-2")
    document = second.pod.model_dump(by_alias=True, exclude_none=True)
    document["metadata"]["namespace"] = "other"
    second.pod = admit_pod(document)

    fault, error, detail = await fault_of(second.create_sandbox())
    owner = f"default/{first.pod.metadata.name}"
    assert (fault, detail.rejection.reason if detail.rejection else "") == (Fault.POD_REJECTED, "UIDInUse")
    assert f"belongs to pod {owner} on this node" in error.message
    assert (detail.status.containers, detail.status.sandboxes) == ((), ())

    [reason, *_] = await foresee_admission(bench.node, second.pod)
    assert reason == f"UIDInUse: {error.message}"

    killed, deleted = await second.kill(), await second.delete()
    assert (killed.outcome, killed.over, deleted.outcome, deleted.over) == (Outcome.DONE, False, Outcome.DONE, True)
    assert await second.remove()
    assert [each.state for each in (await first.view()).containers] == ["running"]
    assert first.directory.exists()

    await first.kill()
    await first.remove()
    assert (await second.create_sandbox()).outcome == Outcome.DONE
