"""Lists that are stored in serialized form, and the search by address, name and id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.cri.v1 import api_pb2 as cri
from syncpod.runtime import listing
from syncpod.runtime.events import Events
from syncpod.runtime.refusals import MAX_SENTENCE, Refusal, invalid
from syncpod.runtime.registry import INDEXED_LABELS, Registry, has_labels
from syncpod.runtime.sandboxes import free_address

labels = st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=300), max_size=5)


@dataclass(frozen=True)
class Thing:
    id: str
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@given(id=st.text(max_size=200), labels=labels, state=st.sampled_from(cri.ContainerState.values()))
def test_a_list_of_entries_is_the_list_of_their_containers(id: str, labels: dict[str, str], state: int) -> None:
    container = cri.Container(id=id, labels=labels, created_at=1)
    entry = listing.with_state(listing.container_entry(container), state)
    container.state = cast(cri.ContainerState, state)
    answer = cri.ListContainersResponse.FromString(entry + listing.container_entry(cri.Container(id="other")))
    assert answer.containers[0] == container
    assert answer.containers[1] == cri.Container(id="other")
    assert listing.read_container(entry) == container


@given(id=st.text(max_size=200), labels=labels)
def test_a_list_of_entries_is_the_list_of_their_sandboxes(id: str, labels: dict[str, str]) -> None:
    sandbox = cri.PodSandbox(id=id, labels=labels)
    entry = listing.with_state(listing.sandbox_entry(sandbox), cri.SANDBOX_NOTREADY)
    sandbox.state = cri.SANDBOX_NOTREADY
    assert cri.ListPodSandboxResponse.FromString(entry).items[0] == sandbox == listing.read_sandbox(entry)


def test_every_sandbox_gets_a_unique_address() -> None:
    taken: set[str] = set()
    for number in range(2000):
        address = free_address(str(number), taken)
        taken.add(address)
        first, second, _, last = (int(part) for part in address.split("."))
        assert first == 127 and second > 0 and last not in (0, 255)
    assert len(taken) == 2000
    assert free_address("a", ()) == free_address("a", ())
    assert free_address("a", {free_address("a", ())}) != free_address("a", ())


def registry(*ids: str) -> Registry[Thing]:
    made: Registry[Thing] = Registry("container")
    for id in ids:
        made.add(Thing(id, f"name of {id}"))
    return made


def test_a_unique_id_prefix_is_resolved() -> None:
    found = registry("abc1", "abd2")
    assert found.get("abc", "container_id") == Thing("abc1", "name of abc1")
    assert found.find("x", "container_id") is None
    assert [each.id for each in found.select("abc", {})] == ["abc1"]
    assert tuple(found.select("ab", {})) == ()
    with pytest.raises(Refusal, match='container_id: 2 container ids begin with "ab": give more of it'):
        found.get("ab", "container_id")
    with pytest.raises(Refusal, match="container_id: required"):
        found.find("", "container_id")
    with pytest.raises(Refusal, match="not found"):
        found.get("x", "container_id")


def test_a_full_id_is_resolved_even_if_it_is_a_prefix_of_others() -> None:
    assert registry("ab", "abc").get("ab", "id").id == "ab"


def test_a_name_is_reserved_until_its_holder_is_removed() -> None:
    things = registry()
    things.reserve("n", "1")
    with pytest.raises(Refusal, match='name "n" is reserved for "1"') as refusal:
        things.reserve("n", "2")
    assert refusal.value.code is grpc.StatusCode.FAILED_PRECONDITION
    things.add(Thing("1", "n"))
    things.discard(Thing("1", "n"))
    things.reserve("n", "2")


@given(
    st.lists(st.dictionaries(st.sampled_from((*INDEXED_LABELS, "app")), st.sampled_from("ab")), max_size=6),
    st.sets(st.integers(0, 5)),
    st.dictionaries(st.sampled_from((*INDEXED_LABELS, "app")), st.sampled_from("abc")),
)
def test_things_are_selected_by_labels_whether_or_not_one_of_them_is_indexed(
    each: list[dict[str, str]], removed: set[int], wanted: dict[str, str]
) -> None:
    things, all_of_them = registry(), [Thing(str(number), f"n{number}", mine) for number, mine in enumerate(each)]
    for thing in all_of_them:
        things.add(thing)
    for number in removed & set(range(len(all_of_them))):
        things.discard(all_of_them[number])
    left = [thing for number, thing in enumerate(all_of_them) if number not in removed]
    assert list(things.select("", wanted)) == [thing for thing in left if wanted.items() <= thing.labels.items()]
    assert [thing.id for thing in left if tuple(things.select(thing.id, wanted))] == [
        thing.id for thing in left if wanted.items() <= thing.labels.items()
    ]


@given(labels, labels)
def test_a_label_selector_requires_all_labels(mine: dict[str, str], wanted: dict[str, str]) -> None:
    assert has_labels(mine, wanted) == (wanted.items() <= mine.items())


def test_an_error_message_is_truncated_to_fit_a_grpc_trailer() -> None:
    assert len(invalid("config.labels", "x" * 10_000_000).sentence) == MAX_SENTENCE


async def test_an_event_reader_that_falls_behind_is_told_so() -> None:
    events = Events()
    reader = events.read()
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    for number in range(2000):
        events.publish(lambda number=number: cri.ContainerEventResponse(created_at=number))  # type: ignore[misc]
    assert (await first).created_at < 1000
    with pytest.raises(Refusal, match="list, then read again"):
        async for _ in reader:
            pass


async def test_event_readers_are_told_to_relist_if_an_event_cannot_be_built() -> None:
    events = Events()
    waiting = asyncio.ensure_future(anext(events.read()))
    await asyncio.sleep(0)

    def torn() -> cri.ContainerEventResponse:
        raise ValueError("a torn record")

    events.publish(torn)
    with pytest.raises(Refusal, match="list, then read again"):
        await waiting


async def test_no_event_is_built_without_readers() -> None:
    Events().publish(lambda: pytest.fail("nobody asked for it"))
