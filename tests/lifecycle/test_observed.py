"""The state of a pod never goes back, in whatever order its listings arrive.

Holds: Nothing observed is dropped, and no state goes back.
"""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.observed import (
    ObservedContainer,
    ObservedPod,
    ObservedSandbox,
    Seq,
    merge,
    order_containers,
    order_restarts,
    order_sandboxes,
)

T0 = datetime(2026, 1, 31, 12, tzinfo=UTC)
RANK = {"created": 0, "running": 1, "exited": 2}


def at(counter: int, *containers: ObservedContainer, sandboxes: tuple[ObservedSandbox, ...] = ()) -> ObservedPod:
    return ObservedPod(seq=Seq(boot=1, counter=counter), uid="uid", sandboxes=sandboxes, containers=containers)


def foo(state: str, id_: str = "foo-id", **fields: object) -> ObservedContainer:
    if state in ("running", "exited"):
        fields.setdefault("started_at", T0)
    return ObservedContainer.model_validate({"id": id_, "name": "foo", "state": state, **fields})


def states(view: ObservedPod) -> dict[str, str]:
    return {container.id: container.state for container in view.containers}


def test_sequence_numbers_are_ordered_by_agent_life_and_then_by_counter() -> None:
    assert Seq() < Seq(counter=1) < Seq(counter=2) < Seq(boot=1) < Seq(boot=1, counter=1)
    assert max(Seq(boot=1), Seq(counter=9)) == Seq(boot=1)


def test_a_newer_listing_decides_what_exists() -> None:
    view = merge(at(1, foo("running"), foo("exited", "old")), at(2, foo("running"), foo("created", "new")))
    assert states(view) == {"foo-id": "running", "new": "created"}
    assert view.seq == Seq(boot=1, counter=2)


def test_an_older_listing_neither_adds_nor_removes_containers() -> None:
    view = merge(at(2, foo("running")), at(1, foo("running", "removed-since")))
    assert states(view) == {"foo-id": "running"}
    assert view.seq == Seq(boot=1, counter=2)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (1, 1)], ids=["newer", "overtaken", "the same again"])
@pytest.mark.parametrize(("known", "incoming"), list(permutations(RANK, 2)))
def test_the_state_of_a_container_only_moves_forward(first: int, second: int, known: str, incoming: str) -> None:
    view = merge(at(first, foo(known)), at(second, foo(incoming)))
    assert states(view) == {"foo-id": max(known, incoming, key=RANK.__getitem__)}


def test_the_unknown_state_follows_newer_listings_until_the_exit() -> None:
    view = merge(at(1, foo("running")), at(2, foo("unknown")))
    assert states(view) == {"foo-id": "unknown"}
    assert states(merge(view, at(1, foo("running")))) == {"foo-id": "unknown"}
    assert states(merge(view, at(3, foo("running")))) == {"foo-id": "running"}
    assert states(merge(view, at(3, foo("created")))) == {"foo-id": "unknown"}
    assert states(merge(view, at(1, foo("exited")))) == {"foo-id": "exited"}
    assert states(merge(at(1, foo("exited")), at(2, foo("unknown")))) == {"foo-id": "exited"}


def test_a_known_exit_is_kept_when_a_late_listing_shows_the_container_running() -> None:
    ended = foo("exited", exit_code=3, reason="Error", finished_at=T0)
    assert merge(at(1, ended), at(2, foo("running"))).containers == (ended,)


def test_a_reason_that_comes_after_the_exit_is_taken() -> None:
    view = merge(at(1, foo("exited", reason="Error")), at(2, foo("exited", reason="OOMKilled")))
    assert view.containers[0].reason == "OOMKilled"


def test_a_sandbox_that_is_not_ready_stays_not_ready() -> None:
    up, down = (ObservedSandbox(id="s", state=state) for state in ("SANDBOX_READY", "SANDBOX_NOTREADY"))
    for first, second in ((1, 2), (2, 1)):
        view = merge(at(first, sandboxes=(down,)), at(second, sandboxes=(up,)))
        assert [sandbox.ready for sandbox in view.sandboxes] == [False]
        view = merge(at(first, sandboxes=(up,)), at(second, sandboxes=(down,)))
        assert [sandbox.ready for sandbox in view.sandboxes] == [False]


def test_a_listing_of_another_pod_is_refused() -> None:
    with pytest.raises(ValueError, match="other"):
        merge(at(1), ObservedPod(uid="other"))
    assert merge(ObservedPod(), at(1)).uid == "uid"


def test_sandboxes_are_ordered_by_attempt_then_creation_then_id() -> None:
    late, early = T0 + timedelta(seconds=1), T0
    given_order = [
        ObservedSandbox(id="d", attempt=0, created_at=late),
        ObservedSandbox(id="c", attempt=1),
        ObservedSandbox(id="b", attempt=1, created_at=early),
        ObservedSandbox(id="a", attempt=1, created_at=early),
        ObservedSandbox(id="e", attempt=1, created_at=late),
    ]
    for order in permutations(given_order):
        assert [sandbox.id for sandbox in order_sandboxes(order)] == ["e", "a", "b", "c", "d"]


def test_containers_are_ordered_by_creation_then_restart_count_then_id() -> None:
    given_order = [
        ObservedContainer(id="c", created_at=T0, restart_count=1),
        ObservedContainer(id="b", created_at=T0, restart_count=2),
        ObservedContainer(id="a", created_at=T0, restart_count=2),
        ObservedContainer(id="d", created_at=T0 + timedelta(microseconds=1)),
    ]
    for order in permutations(given_order):
        assert [container.id for container in order_containers(order)] == ["d", "a", "b", "c"]


def test_a_view_survives_serialisation_and_ignores_unknown_fields() -> None:
    view = at(3, foo("running", exit_code=0), sandboxes=(ObservedSandbox(id="s", ip="", created_at=T0),))
    wire = view.model_dump(mode="json")
    assert wire["sandboxes"][0]["createdAt"] == "2026-01-31T12:00:00Z"
    assert ObservedPod.model_validate({**wire, "fromTheFuture": 1}) == view
    assert ObservedPod.model_validate({}) == ObservedPod()


containers = st.builds(
    foo,
    st.sampled_from(["created", "running", "exited", "unknown"]),
    st.sampled_from(["a", "b", "c"]),
)
listings = st.builds(
    lambda counter, listed: at(counter, *{container.id: container for container in listed}.values()),
    st.integers(0, 3),
    st.lists(containers, max_size=4),
)


@given(listings, listings)
def test_merging_a_listing_is_idempotent(known: ObservedPod, incoming: ObservedPod) -> None:
    once = merge(known, incoming)
    assert merge(once, incoming) == once


@given(listings)
def test_merging_a_listing_into_itself_only_orders_it(listing: ObservedPod) -> None:
    assert merge(listing, listing) == listing.ordered()


@given(listings, listings)
def test_no_merge_moves_a_container_back_to_an_earlier_state(known: ObservedPod, incoming: ObservedPod) -> None:
    view = states(merge(known, incoming))
    for before in (states(known), states(incoming)):
        for id_, state in before.items():
            if id_ in view and state == "exited":
                assert view[id_] == "exited"
            if id_ in view and state == "running":
                assert view[id_] != "created"


@given(st.lists(listings, min_size=1, max_size=4, unique_by=lambda listing: listing.seq.counter))
def test_the_newest_listing_decides_what_exists_in_any_order_of_arrival(arrived: list[ObservedPod]) -> None:
    newest = max(arrived, key=lambda listing: listing.seq)
    view = ObservedPod(seq=Seq(boot=-1))
    for listing in arrived:
        view = merge(view, listing)
    assert states(view).keys() == states(newest).keys()
    assert view.seq == newest.seq


def test_the_newest_instance_has_the_highest_restart_count_whatever_its_creation_time() -> None:
    runs = foo("running", "second", restart_count=1, created_at=T0 - timedelta(seconds=3))
    ended = foo("exited", "first", restart_count=0, created_at=T0)
    other = foo("running", "other", created_at=T0 - timedelta(seconds=1)).model_copy(update={"name": "bar"})
    listed = order_containers((runs, ended, other))
    assert [container.id for container in listed] == ["first", "other", "second"]
    assert [container.id for container in order_restarts(listed)] == ["second", "other", "first"]
