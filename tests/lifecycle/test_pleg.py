"""What happened between two listings of a pod."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox, Seq
from syncpod.lifecycle.pleg import PodLifecycleEvent, pod_lifecycle_events

STATES = ("created", "running", "exited", "unknown")


def listing(*, sandbox: bool | None = None, ip: str | None = None, **containers: str) -> ObservedPod:
    """Return a listing; keywords are containers' ids and states, the newest last."""
    sandboxes = (
        ()
        if sandbox is None
        else (ObservedSandbox(id="sandbox", state="SANDBOX_READY" if sandbox else "SANDBOX_NOTREADY", ip=ip),)
    )
    return ObservedPod(uid="uid", sandboxes=sandboxes, containers=listed(containers))


def listed(states: Mapping[str, str]) -> tuple[ObservedContainer, ...]:
    containers = [{"id": id_, "name": id_, "state": state} for id_, state in states.items()]
    return tuple(ObservedContainer.model_validate(container) for container in reversed(containers))


def events(old: ObservedPod | None, new: ObservedPod | None) -> list[tuple[str, str]]:
    return [(event.type, event.id) for event in pod_lifecycle_events(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "created", ["ContainerChanged"]),
        (None, "running", ["ContainerStarted"]),
        (None, "exited", ["ContainerDied"]),
        (None, "unknown", ["ContainerChanged"]),
        ("created", "running", ["ContainerStarted"]),
        ("created", "exited", ["ContainerDied"]),
        ("created", "unknown", ["ContainerChanged"]),
        ("running", "exited", ["ContainerDied"]),
        ("running", "unknown", ["ContainerChanged"]),
        ("unknown", "running", ["ContainerStarted"]),
        ("created", None, ["ContainerDied", "ContainerRemoved"]),
        ("running", None, ["ContainerDied", "ContainerRemoved"]),
        ("unknown", None, ["ContainerDied", "ContainerRemoved"]),
        ("exited", None, ["ContainerRemoved"]),
        *((state, state, []) for state in STATES),
    ],
)
def test_each_container_state_change_gives_its_event(old: str | None, new: str | None, expected: list[str]) -> None:
    before = listing() if old is None else listing(foo=old)
    after = listing() if new is None else listing(foo=new)
    assert events(before, after) == [(type_, "foo") for type_ in expected]


def test_a_sandbox_counts_as_a_container() -> None:
    assert events(None, listing(sandbox=True)) == [("ContainerStarted", "sandbox")]
    assert events(listing(sandbox=True), listing(sandbox=False)) == [("ContainerDied", "sandbox")]
    assert events(listing(sandbox=False), listing()) == [("ContainerRemoved", "sandbox")]


def test_a_new_and_a_removed_pod_give_events() -> None:
    there = listing(sandbox=True, foo="running", bar="exited")
    assert events(None, there) == [
        ("ContainerStarted", "sandbox"),
        ("ContainerStarted", "foo"),
        ("ContainerDied", "bar"),
    ]
    assert events(there, None) == [
        ("ContainerDied", "sandbox"),
        ("ContainerRemoved", "sandbox"),
        ("ContainerDied", "foo"),
        ("ContainerRemoved", "foo"),
        ("ContainerRemoved", "bar"),
    ]
    assert events(None, None) == []


def test_removals_are_reported_before_additions() -> None:
    assert events(listing(old="exited"), listing(new="running")) == [
        ("ContainerRemoved", "old"),
        ("ContainerStarted", "new"),
    ]


def test_a_difference_without_a_state_change_gives_one_pod_sync_event() -> None:
    assert events(listing(sandbox=True), listing(sandbox=True, ip="10.0.0.1")) == [("PodSync", "uid")]
    assert events(listing(sandbox=True), listing(sandbox=False, ip="10.0.0.1")) == [("ContainerDied", "sandbox")]


def test_the_time_of_a_listing_gives_no_event() -> None:
    there = listing(sandbox=True, foo="running")
    assert events(there, there.model_copy(update={"seq": Seq(boot=2, counter=7)})) == []


def test_the_order_of_a_listing_gives_no_event() -> None:
    assert events(listing(foo="running", bar="exited"), listing(bar="exited", foo="running")) == []


listings = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(STATES)).map(
    lambda states: ObservedPod(uid="uid", containers=listed(states))
)


@given(old=listings, new=listings)
def test_events_name_exactly_the_containers_that_differ(old: ObservedPod, new: ObservedPod) -> None:
    before = {container.id: container.state for container in old.containers}
    after = {container.id: container.state for container in new.containers}
    told = {event.id for event in pod_lifecycle_events(old, new)}
    assert told == {id_ for id_ in before.keys() | after.keys() if before.get(id_) != after.get(id_)}
    deaths = [event.id for event in pod_lifecycle_events(old, new) if event.type == "ContainerDied"]
    assert len(deaths) == len(set(deaths))
    assert all(before.get(id_) != "exited" for id_ in deaths)


def test_events_are_immutable() -> None:
    assert PodLifecycleEvent("ContainerDied", "foo") == PodLifecycleEvent("ContainerDied", "foo")
