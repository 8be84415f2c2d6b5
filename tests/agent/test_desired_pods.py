"""Pods of a manifest directory: the orders to their workflows, even after lost messages or actions of others.

Holds: A node reaches the state that its lists ask for, even if messages are lost on the way.
Holds: No pod of a list outlives its entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from syncpod.agent.sources import desired_pods
from syncpod.agent.sources.desired_pods import AT_ONCE, DesiredPods, Listing
from syncpod.lifecycle.orphans import Standing
from syncpod.messages.identity import PodRef, pod_workflow_id
from syncpod.messages.node import FILE_SOURCE, ApplyPodWorkflow, DeletePodWorkflow, PodKey, PodWorkflowResult
from syncpod.pod import ObjectMeta
from tests.agent.published import Known
from tests.agent.waiting import until

SOURCE, SEEN, HASH = (f"kubernetes.io/config.{name}" for name in ("source", "seen", "hash"))


def document(name: str, uid: str) -> dict[str, Any]:
    """A static pod as it is made from its file."""
    return {"metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": {HASH: uid}}}


def listing(
    *names_and_uids: str, kept: tuple[str, ...] = (), named: tuple[str, ...] = (), again: tuple[str, ...] = ()
) -> Listing:
    """The listing of a directory; ``web/u1`` stands for the pod web with the UID u1."""
    pods = tuple(document(*each.split("/")) for each in names_and_uids)
    keys = [tuple(PodKey(name=name) for name in names) for names in (kept, named, again)]
    return Listing(pods, keys[0], (), frozenset(keys[1]), frozenset(keys[2]))


def meta(name: str, uid: str, source: str = "file", *, hashed: str | None = None, ending: bool = False) -> ObjectMeta:
    """The metadata of a pod in the state that its workflow publishes."""
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=uid,
        annotations={SOURCE: source, HASH: uid if hashed is None else hashed, SEEN: "then"},
        deletion_timestamp=datetime(2026, 11, 1, tzinfo=UTC) if ending else None,
    )


class Workflows:
    """Pods' workflows, which end a pod at once and then accept another, and the server's list of them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.there: dict[str, str] = {}
        """The UID of the running pod, by name."""
        self.known: list[ObjectMeta] = []
        self.failures: list[Exception] = []
        """The errors with which the next orders fail."""
        self.lost = False
        """Whether an order that fails was nevertheless carried out."""
        self.answering = asyncio.Event()
        self.answering.set()
        self.under_way = 0
        self.is_ours = True
        self.lagging: set[str] = set()
        """The names of pods whose workflows are open but not yet visible in the server's lists."""
        self.asked = 0
        self.annotations: dict[str, str] = {}
        self.specs: dict[str, Any] = {}
        """The spec of the running pod, by name: it may not be changed."""
        self.is_invalid = False
        """Whether every document is refused."""
        self.pods = DesiredPods("n1", FILE_SOURCE, self, self, self._known, self._require)

    def _known(self) -> list[Known]:
        return [Known(each) for each in self.known]

    def published(self, known: ObjectMeta) -> None:
        """Publish the state of a pod with this metadata."""
        self.pods.published(Known(known))

    def gone(self, known: ObjectMeta, *, is_followed: bool) -> None:
        """End the workflow of a pod with this metadata."""
        self.pods.gone(Known(known, is_followed))

    async def _require(self) -> None:
        if not self.is_ours:
            raise RPCError("another server", RPCStatusCode.UNAVAILABLE, b"")

    async def _answered(self) -> None:
        self.under_way += 1
        await self.answering.wait()
        self.under_way -= 1

    async def apply(self, request: ApplyPodWorkflow, *, require: Callable[[], Awaitable[None]]) -> PodWorkflowResult:
        await require()
        metadata = request.pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        self.told.append(f"apply {name}/{uid}" + "".join(f" for {each}" for each in request.replaces))
        self.annotations = metadata["annotations"]
        failure = self.failures.pop(0) if self.failures else None
        await self._answered()
        if failure is not None and not self.lost:
            raise failure
        if self.there.get(name) in request.replaces:
            del self.there[name]
        if self.there.get(name, uid) != uid:
            return PodWorkflowResult(refused="it is another pod")
        spec = request.pod.get("spec")
        if self.is_invalid or (name in self.there and self.specs.get(name) != spec):
            return PodWorkflowResult(refused="spec: may not be changed")
        self.specs[name] = spec
        self.there[name] = uid
        if failure is not None:
            raise failure
        return PodWorkflowResult(uid=uid)

    async def end(self, request: DeletePodWorkflow) -> PodWorkflowResult:
        self.told.append(f"end {request.name}/{','.join(request.uids)}")
        failure = self.failures.pop(0) if self.failures else None
        await self._answered()
        if failure is not None and not self.lost:
            raise failure
        if self.there.get(request.name) in request.uids:
            del self.there[request.name]
        if failure is not None:
            raise failure
        return PodWorkflowResult(absent=True)

    async def open(self) -> dict[str, str]:
        self.asked += 1
        if not self.is_ours:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return {pod_workflow_id("default", name): uid for name, uid in self.there.items() if name not in self.lagging}

    async def standing(self, ref: PodRef) -> Standing:
        return "open" if self.there.get(ref.name) == ref.uid else "closed"

    def words(self) -> dict[str, str]:
        """The report about each pod."""
        return {each.name: each.state for each in self.pods.report()}

    async def settled(self, **words: str) -> None:
        """Wait until the report is exactly this."""
        await until(lambda: self.words() == words)


@pytest_asyncio.fixture
async def workflows(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workflows]:
    monkeypatch.setattr(desired_pods, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(desired_pods, "_QUICK_SECONDS", (0.01, 0.01))
    made = Workflows()
    yield made
    await made.pods.close()


async def test_a_pod_runs_while_it_has_a_file_and_each_change_is_told_once(workflows: Workflows) -> None:
    pods = workflows.pods
    await pods.take(listing("web/u1", "job/u2"))
    await workflows.settled(web="applied", job="applied")
    assert workflows.annotations[SOURCE] == "file"
    await pods.take(listing("web/u1", "job/u2"))
    await pods.take(listing("web/u3"))
    await workflows.settled(web="applied")
    assert workflows.there == {"web": "u3"}
    await pods.take(listing())
    await workflows.settled()
    assert workflows.told == ["apply web/u1", "apply job/u2", "apply web/u3 for u1", "end job/u2", "end web/u3"]


async def test_a_file_that_is_back_at_once_has_its_pod_applied_after_the_deletion_was_answered(
    workflows: Workflows,
) -> None:
    """An order to delete that arrived later would end a desired pod."""
    await workflows.pods.take(listing("web/u1"))
    await workflows.settled(web="applied")
    workflows.answering.clear()
    await workflows.pods.take(listing())
    await until(lambda: workflows.told[-1] == "end web/u1")
    await workflows.pods.take(listing("web/u1"))
    workflows.answering.set()
    await until(lambda: workflows.there == {"web": "u1"} and len(workflows.told) == 3)


async def test_a_file_that_was_away_for_a_moment_has_its_pod_ended_and_begun_anew_once(workflows: Workflows) -> None:
    """Row 9: an end that gets no answer is repeated."""
    await workflows.pods.take(listing("web/u1", "job/u2"))
    await workflows.settled(web="applied", job="applied")
    for lost in (False, True):
        workflows.told, workflows.lost = [], lost
        workflows.failures = [ApplicationError("no answer")]
        await workflows.pods.take(listing("web/u1", "job/u2", again=("web", "new")))
        await workflows.settled(web="applied", job="applied")
        await workflows.pods.take(listing("web/u1", "job/u2"))
        await workflows.settled(web="applied", job="applied")
        assert workflows.told == ["end web/u1", "end web/u1", "apply web/u1"]
    workflows.told, workflows.lost = [], False
    workflows.answering.clear()
    await workflows.pods.take(listing("web/u1", "job/u2", again=("job",)))
    await until(lambda: workflows.told == ["end job/u2"])
    await workflows.pods.take(listing("web/u1", "job/u2", again=("job",)))
    workflows.answering.set()
    await workflows.settled(web="applied", job="applied")
    workflows.failures = [ApplicationError("no answer")]
    await workflows.pods.take(listing("web/u1"))
    await workflows.settled(web="applied")
    assert workflows.told == ["end job/u2", "apply job/u2", "end job/u2", "end job/u2"]


async def test_a_file_that_was_away_for_a_moment_and_has_changed_has_its_pod_replaced(workflows: Workflows) -> None:
    await workflows.pods.take(listing("web/u1"))
    await workflows.settled(web="applied")
    await workflows.pods.take(listing("web/u2", again=("web",)))
    await workflows.settled(web="applied")
    await workflows.pods.take(listing("web/u2"))
    await workflows.settled(web="applied")
    assert workflows.told == ["apply web/u1", "apply web/u2 for u1"]


def own(uid: str, spec: str, *, is_named: bool = True) -> Listing:
    """The listing of one file that sets its pod's UID."""
    named = frozenset((PodKey(name="web"),)) if is_named else frozenset()
    return Listing(({**document("web", uid), "spec": spec},), (), (), named)


async def test_a_change_that_the_running_pod_cannot_take_ends_it_and_begins_it_anew(workflows: Workflows) -> None:
    """A file that sets the UID was changed by a rename: the old container ran on for ever."""
    await workflows.pods.take(own("u1", "first"))
    await workflows.settled(web="applied")
    workflows.known = [meta("web", "u1")]
    for spec in ("second", "third"):
        workflows.told = []
        await workflows.pods.take(own("u1", spec))
        await workflows.settled(web="applied")
        assert (workflows.told, workflows.specs) == (["apply web/u1", "end web/u1", "apply web/u1"], {"web": spec})
        (why,) = workflows.pods.take_begun_anew()
        assert why.startswith("pod default/web ends and begins anew") and why.endswith("spec: may not be changed")
    assert workflows.pods.take_begun_anew() == ()
    assert workflows.pods.take_ended_by_others() == ()


async def test_the_next_worker_begins_a_pod_anew_whose_file_has_changed_too_much(workflows: Workflows) -> None:
    workflows.there, workflows.specs, workflows.known = {"web": "u1"}, {"web": "first"}, [meta("web", "u1")]
    await workflows.pods.take(own("u1", "second"))
    await workflows.settled(web="applied")
    assert workflows.told == ["apply web/u1", "end web/u1", "apply web/u1"]


async def test_a_document_that_is_refused_by_itself_ends_its_pod_at_most_once(workflows: Workflows) -> None:
    await workflows.pods.take(own("u1", "first"))
    await workflows.settled(web="applied")
    workflows.known, workflows.is_invalid = [meta("web", "u1")], True
    await workflows.pods.take(own("u1", "second"))
    await until(lambda: workflows.pods.report()[0].retry_at is not None)
    assert workflows.told[1:] == ["apply web/u1", "end web/u1", "apply web/u1"]
    await workflows.pods.take(own("u1", "second"))
    await asyncio.sleep(0.05)
    assert len(workflows.told) == 4


@pytest.mark.parametrize(
    ("known", "is_named"),
    [([], True), ([meta("web", "u1", "api")], True), ([meta("web", "u2")], True), ([meta("web", "u1")], False)],
)
async def test_only_a_pod_of_the_file_with_the_uid_that_it_sets_is_ended_for_a_refused_change(
    workflows: Workflows, known: list[ObjectMeta], is_named: bool
) -> None:
    await workflows.pods.take(own("u1", "first"))
    await workflows.settled(web="applied")
    workflows.known = known
    await workflows.pods.take(own("u1", "second", is_named=is_named))
    await until(lambda: workflows.pods.report()[0].retry_at is not None)
    assert workflows.told == ["apply web/u1"] * 2


async def test_a_file_that_goes_while_its_pod_is_begun_has_it_ended(workflows: Workflows) -> None:
    workflows.answering.clear()
    await workflows.pods.take(listing("web/u1"))
    await until(lambda: bool(workflows.told))
    await workflows.pods.take(listing())
    workflows.answering.set()
    await workflows.settled()
    assert (workflows.told, workflows.there) == (["apply web/u1", "end web/u1"], {})


async def test_a_pod_that_was_begun_without_an_answer_is_ended_or_replaced_with_its_file(workflows: Workflows) -> None:
    workflows.lost = True
    workflows.failures = [ApplicationError("no answer", type="NoAnswer"), ApplicationError("no answer")]
    await workflows.pods.take(listing("web/u1"))
    await until(lambda: workflows.there == {"web": "u1"})
    await workflows.pods.take(listing("web/u2"))
    await workflows.settled(web="applied")
    assert workflows.there == {"web": "u2"}
    await workflows.pods.take(listing())
    await workflows.settled()
    assert workflows.there == {}


async def test_the_next_worker_tells_no_pod_again_that_is_as_its_file_says(workflows: Workflows) -> None:
    workflows.there = {"web": "u1", "own": "chosen", "job": "u2"}
    await workflows.pods.take(listing("web/u1", "own/chosen", "new/u3", named=("own",)))
    await workflows.settled(web="applied", own="applied", new="applied")
    assert sorted(workflows.told) == ["apply new/u3", "apply own/chosen"]  # only its workflow knows what it was
    assert workflows.asked == 1


@pytest.mark.parametrize("known_first", [True, False])
async def test_the_next_worker_ends_pods_whose_files_went_while_no_worker_ran(
    workflows: Workflows, known_first: bool
) -> None:
    """Their own workflows say that they were made for files."""
    workflows.there = {"job": "u1", "web": "u2", "single": "s", "copy": "c", "listed": "l"}
    published = [
        meta("job", "u1"),
        meta("web", "u2"),
        meta("single", "s", "api"),
        meta("copy", "c", hashed="u1"),
        meta("listed", "l", "team"),
    ]
    if known_first:
        workflows.known = published
    else:
        await workflows.pods.take(listing("web/u3"))
    for each in published:
        workflows.published(each)  # before the directory was read this ends nothing
    if known_first:
        for _ in range(5):
            await asyncio.sleep(0)
        assert workflows.told == []
        await workflows.pods.take(listing("web/u3"))
    await workflows.settled(web="applied")
    assert workflows.there == {"web": "u3", "single": "s", "copy": "c", "listed": "l"}


async def test_a_pod_whose_file_cannot_be_read_stays_as_it_is(workflows: Workflows) -> None:
    workflows.there = {"web": "u1"}
    await workflows.pods.take(listing(kept=("web",)))
    workflows.published(meta("web", "u1"))
    await workflows.settled(web="applied")
    assert workflows.told == []
    await workflows.pods.take(listing("web/u2"))
    await until(lambda: workflows.there == {"web": "u2"})
    await workflows.pods.take(listing(kept=("web",)))
    await workflows.pods.take(listing())
    await workflows.settled()
    assert workflows.there == {}


async def test_a_pod_that_somebody_ended_is_applied_again(workflows: Workflows) -> None:
    await workflows.pods.take(listing("web/u1"))
    await workflows.settled(web="applied")
    workflows.published(meta("web", "u1", ending=True))
    assert workflows.told == ["apply web/u1"]
    del workflows.there["web"]
    workflows.gone(meta("web", "u1"), is_followed=False)
    await workflows.settled(web="applied")
    assert workflows.told == ["apply web/u1"] * 2
    assert workflows.pods.take_ended_by_others() == (PodKey(name="web"),)
    assert workflows.pods.take_ended_by_others() == ()
    workflows.gone(meta("web", "u1"), is_followed=True)  # the next pod is the requested one
    assert workflows.told == ["apply web/u1"] * 2


@pytest.mark.parametrize("between", ["web/u2", ""])
async def test_a_pod_that_the_node_ends_itself_is_not_said_to_be_ended_by_somebody_else(
    workflows: Workflows, between: str
) -> None:
    """It may have ended before the order's answer comes."""
    await workflows.pods.take(listing("web/u1"))
    await workflows.settled(web="applied")
    workflows.answering.clear()
    await workflows.pods.take(listing(*filter(None, [between])))
    await until(lambda: workflows.under_way == 1)
    await workflows.pods.take(listing("web/u2" if between else "web/u1"))
    workflows.there.clear()
    workflows.gone(meta("web", "u1"), is_followed=False)
    workflows.answering.set()
    await workflows.settled(web="applied")
    assert workflows.pods.take_ended_by_others() == ()


async def test_a_pod_whose_workflow_was_terminated_is_found_and_applied_again(workflows: Workflows) -> None:
    await workflows.pods.take(listing("web/u1", "job/u2"))
    await workflows.settled(web="applied", job="applied")
    workflows.lagging = {"job"}
    await workflows.pods.find_ended()
    assert len(workflows.told) == 2
    del workflows.there["web"]
    await workflows.pods.find_ended()
    await workflows.settled(web="applied", job="applied")
    assert workflows.told[2:] == ["apply web/u1"]
    assert workflows.annotations[SEEN]


async def test_a_pod_that_is_refused_is_retried_after_a_back_off_or_once_another_is_gone(workflows: Workflows) -> None:
    """For example, another list's pod has its name."""
    workflows.there = {"web": "other"}
    await workflows.pods.take(listing("web/u1"))
    await until(lambda: workflows.pods.report()[0].retry_at is not None)
    (said,) = workflows.pods.report()
    assert (said.state, said.reason, said.message) == ("pending", "Refused", "it is another pod")
    del workflows.there["web"]
    workflows.gone(meta("web", "other", "team"), is_followed=False)
    await workflows.settled(web="applied")
    (said,) = workflows.pods.report()
    assert (said.reason, said.message, said.retry_at) == ("", "", None)


async def test_a_changed_file_of_a_pod_that_waits_is_tried_at_once(workflows: Workflows) -> None:
    workflows.there = {"web": "other"}
    await workflows.pods.take(listing("web/u1"))
    await until(lambda: workflows.pods.report()[0].retry_at is not None)
    del workflows.there["web"]
    await workflows.pods.take(listing("web/u2"))
    await workflows.settled(web="applied")
    assert workflows.there == {"web": "u2"}


async def test_an_older_pod_that_its_workflow_names_while_the_new_one_is_refused_is_replaced(
    workflows: Workflows,
) -> None:
    """The next worker reads the directory before it knows the pod."""
    workflows.there = {"web": "u1"}
    workflows.answering.clear()
    await workflows.pods.take(listing("web/u2"))
    await until(lambda: bool(workflows.told))
    workflows.published(meta("web", "u1"))
    workflows.answering.set()
    await workflows.settled(web="applied")
    assert workflows.told == ["apply web/u2", "apply web/u2 for u1"]


async def test_a_server_that_is_away_or_another_ones_delays_orders_and_gets_none(workflows: Workflows) -> None:
    await workflows.pods.take(listing())
    workflows.is_ours = False
    await workflows.pods.take(listing("web/u1"))
    await asyncio.sleep(0.05)
    assert workflows.told == []
    workflows.is_ours = True
    workflows.failures = [RPCError("away", RPCStatusCode.UNAVAILABLE, b"")] * 5
    await workflows.settled(web="applied")
    assert len(workflows.told) == 6


async def test_the_first_listing_is_taken_once_the_server_says_which_workflows_there_are(workflows: Workflows) -> None:
    workflows.is_ours = False
    with pytest.raises(RPCError):
        await workflows.pods.take(listing("web/u1"))
    assert (workflows.pods.is_read, workflows.pods.report()) == (False, ())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApplicationError("no answer", type="NoAnswer"), ("ApplicationError", "no answer")),
        (OSError("the disk hangs"), ("OSError", "the disk hangs")),
        (ValueError("spec: what nobody may read"), ("ValueError", "ValueError")),
    ],
)
async def test_an_order_that_fails_is_repeated_quickly_and_then_shown_without_a_spec(
    workflows: Workflows, error: Exception, said: tuple[str, str]
) -> None:
    workflows.failures = [error] * 3
    await workflows.pods.take(listing("web/u1"))
    await until(lambda: workflows.pods.report()[0].retry_at is not None)
    (shown,) = workflows.pods.report()
    assert ((shown.reason, shown.message), len(workflows.told)) == (said, 3)


async def test_only_so_many_pods_are_told_at_once(workflows: Workflows) -> None:
    workflows.answering.clear()
    names = [f"p{number}" for number in range(AT_ONCE + 5)]
    await workflows.pods.take(listing(*(f"{name}/u" for name in names)))
    await until(lambda: workflows.under_way == AT_ONCE)
    await asyncio.sleep(0.05)
    assert len(workflows.told) == AT_ONCE
    workflows.answering.set()
    await workflows.settled(**dict.fromkeys(names, "applied"))


async def test_a_pod_that_is_applied_again_keeps_the_time_when_the_node_first_heard_of_it(
    workflows: Workflows,
) -> None:
    workflows.there = {"web": "u1"}
    workflows.known = [meta("web", "u1")]
    await workflows.pods.take(listing("web/u1"))
    workflows.published(meta("web", "u1"))
    del workflows.there["web"]
    workflows.gone(meta("web", "u1"), is_followed=False)
    await until(lambda: workflows.told == ["apply web/u1"])
    assert workflows.annotations[SEEN] == "then"


def numbered(name: str, uid: str, generation: int, **labels: str) -> dict[str, Any]:
    """A pod from a source that numbers its changes, such as a cluster."""
    made = document(name, uid)
    return {"metadata": {**made["metadata"], "generation": generation, "labels": labels}}


async def test_the_next_worker_gives_a_numbered_pod_an_order_only_if_its_workflow_has_another_version(
    workflows: Workflows,
) -> None:
    workflows.there = dict.fromkeys(("same", "older", "labelled", "silent"), "u")
    pods = tuple(numbered(name, "u", 2, app="web") for name in workflows.there)
    keys = frozenset(PodKey(name=name) for name in workflows.there)
    workflows.known = [meta("older", "u").model_copy(update={"generation": 1, "labels": {"app": "web"}})]
    await workflows.pods.take(Listing(pods[:3], (PodKey(name="silent"),), (), keys))
    await workflows.pods.take(Listing(pods, (), (), keys))
    same = meta("same", "u").model_copy(update={"generation": 2, "labels": {"app": "web"}})
    workflows.published(same)
    workflows.published(meta("labelled", "u").model_copy(update={"generation": 2, "labels": {}}))
    await workflows.settled(**dict.fromkeys(workflows.there, "applied"))
    assert sorted(workflows.told) == ["apply labelled/u", "apply older/u"]
    assert workflows.asked == 1
    # What it publishes later is no reason for an order, and a change of the source is one.
    workflows.published(same.model_copy(update={"generation": 1}))
    changed = tuple(numbered(name, "u", 3 if name == "same" else 2, app="web") for name in workflows.there)
    await workflows.pods.take(Listing(changed, (), (), keys))
    await workflows.settled(**dict.fromkeys(workflows.there, "applied"))
    assert sorted(workflows.told) == ["apply labelled/u", "apply older/u", "apply same/u"]
    assert workflows.annotations[SEEN] == "then"
