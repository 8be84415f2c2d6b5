"""A pod is killed as an orphan only if the server's own records prove it, even if a clock is wrong.

Holds: A pod without a workflow is killed only if the server's own records prove it an orphan.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.orphans import CLOCK_MARGIN, Coverage, Found, Standing, duplicates, judge, made_at

HERE, ELSEWHERE = "a/default", "b/default"
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
WORST_LOCAL_TIME = timedelta(hours=14)

moments = st.integers(-5000, 5000).map(lambda hours: START + timedelta(hours=hours))
standings: st.SearchStrategy[Standing] = st.sampled_from(("open", "closed", "another", "unknown"))
finds = st.builds(
    Found,
    uid=st.sampled_from(("", "u1", "u2")),
    cluster=st.sampled_from((HERE, ELSEWHERE, "")),
    made_at=st.none() | moments,
    standing=standings,
)
coverages = st.builds(
    Coverage,
    sources_ready=st.booleans(),
    since=st.none() | moments,
    desired=st.sampled_from((frozenset(), frozenset({"u1"}))),
)


@given(finds, coverages)
def test_a_desired_pod_or_one_of_another_cluster_is_never_killed_as_an_orphan(found: Found, coverage: Coverage) -> None:
    """Row 11 (ours): and nothing is, before every source of pods has reported."""
    judgement = judge(found, coverage, cluster=HERE)
    if judgement.kill:
        assert coverage.sources_ready
        assert found.cluster == HERE
        assert not found.uid or (found.standing != "open" and found.uid not in coverage.desired)
    assert judgement.orphan == (bool(judgement.why)), "an orphan is one for a reason"
    assert judgement.orphan == (judgement.kill or bool(judgement.but)), "and what is left is left for one"


@given(finds, moments)
def test_an_empty_server_is_no_evidence_against_pods_older_than_its_history(found: Found, begun: datetime) -> None:
    """Row 11 (ours): it knows of no workflow, and its node's history begins after all that runs was made."""
    before = begun if found.made_at is None else max(begun, found.made_at)
    coverage = Coverage(sources_ready=True, since=before)
    assert not judge(replace(found, standing="unknown"), coverage, cluster=HERE).kill


@given(moments, st.integers(-48 * 60, 48 * 60), st.integers(-14 * 60, 14 * 60))
def test_a_node_clock_in_local_time_does_not_make_an_old_pod_look_new(
    since: datetime, made_minutes: int, ahead_minutes: int
) -> None:
    """Row 11 (ours): the node's clock says when something was made, the server's since when there is a history."""
    made_at = since + timedelta(minutes=made_minutes)
    found = Found("u1", HERE, made_at, "unknown")
    if judge(found, Coverage(sources_ready=True, since=since), cluster=HERE).kill:
        assert made_at - timedelta(minutes=ahead_minutes) > since


def test_the_clock_margin_exceeds_every_utc_offset() -> None:
    assert CLOCK_MARGIN > WORST_LOCAL_TIME


def test_the_evidence_is_described_in_words() -> None:
    known = Coverage(sources_ready=True, since=START)
    late = START + timedelta(days=30)

    def said(standing: Standing, coverage: Coverage = known, uid: str = "u1", at: datetime = late) -> tuple[bool, str]:
        judgement = judge(Found(uid, HERE, at, standing), coverage, cluster=HERE)
        return judgement.kill, "; ".join(part for part in (judgement.why, judgement.but) if part)

    assert said("open") == (False, "")
    assert said("closed") == (True, "its workflow has ended")
    assert said("another") == (True, "its name is another pod's now")
    unknown = "the Temporal server has no such workflow"
    assert said("unknown") == (True, f"{unknown}, though the node's history covers its creation")
    assert said("unknown", at=START) == (False, f"{unknown}; the node's history does not cover its creation")
    assert said("closed", Coverage(since=START)) == (
        False,
        "its workflow has ended; not every source of pods has reported yet",
    )
    assert said("unknown", uid="") == (True, "it names no pod, though the node's history covers its creation")
    assert said("closed", Coverage(True, START, frozenset({"u1"}))) == (False, "")


def test_the_creation_order_counts_only_if_all_times_are_known() -> None:
    assert made_at([START, START - timedelta(hours=1)]) == START - timedelta(hours=1)
    assert made_at([START, None]) is None
    assert made_at([]) is None


# --- duplicates -------------------------------------------------------------------------------------------------------


def instance(
    id_: str, name: str = "web", sandbox: str = "s0", state: ContainerRuntimeState = "running", at: int = 0
) -> ObservedContainer:
    return ObservedContainer(
        id=id_, name=name, sandbox_id=sandbox, state=state, created_at=START + timedelta(minutes=at)
    )


def pod(*containers: ObservedContainer, ready: tuple[str, ...] = ("s0",), dead: tuple[str, ...] = ()) -> ObservedPod:
    sandboxes = [ObservedSandbox(id=each, attempt=int(each[1:]), state="SANDBOX_READY") for each in ready]
    sandboxes += [ObservedSandbox(id=each, attempt=int(each[1:])) for each in dead]
    return ObservedPod(uid="u1", sandboxes=tuple(sandboxes), containers=containers)


def test_the_newest_of_two_running_containers_of_one_name_is_kept() -> None:
    """Row 11 (ours): whichever was made later, as the kubelet's decisions go by that one."""
    elder, newer = instance("a", at=1), instance("b", at=2)
    assert [each.id for each in duplicates(pod(elder, newer, instance("c", "side")))] == ["a"]


def test_a_container_in_a_dead_sandbox_is_ended_even_if_it_is_newer() -> None:
    inside, outside = instance("a", sandbox="s1", at=1), instance("b", sandbox="s0", at=2)
    assert [each.id for each in duplicates(pod(inside, outside, ready=("s1",), dead=("s0",)))] == ["b"]


def test_duplicate_ready_sandboxes_are_left_to_the_pods_workflow() -> None:
    twins = pod(instance("a", sandbox="s0"), instance("b", sandbox="s1"), ready=("s0", "s1"))
    assert duplicates(twins) == ()


states: st.SearchStrategy[ContainerRuntimeState] = st.sampled_from(("created", "running", "exited", "unknown"))
containers = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(("s0", "s1")), states, st.integers(0, 9)), max_size=6
)


@given(containers)
def test_one_running_container_of_each_name_is_kept_and_only_running_ones_are_ended(
    drawn: list[tuple[str, str, ContainerRuntimeState, int]],
) -> None:
    listing = pod(
        *(instance(str(n), name, sandbox, state, at) for n, (name, sandbox, state, at) in enumerate(drawn)),
        ready=("s1",),
        dead=("s0",),
    )
    chosen = duplicates(listing)
    assert all(each.state == "running" for each in chosen)
    alive = [each for each in listing.containers if each.state == "running"]
    left = [each.name for each in alive if each not in chosen]
    assert sorted(left) == sorted({each.name for each in alive})


@pytest.mark.parametrize("standing", ["closed", "another", "unknown"])
def test_where_commands_are_signed_the_servers_word_alone_kills_nothing(standing: Standing) -> None:
    """Whoever reaches the server can terminate workflows, and what listens there may be another server."""
    since = AT - timedelta(days=9)
    coverage = Coverage(sources_ready=True, since=since, needs_tombstone=True)
    found = Found(uid="u", cluster=HERE, made_at=AT, standing=standing)
    left = judge(found, coverage, cluster=HERE)
    assert (left.orphan, left.kill) == (True, False)
    assert left.but == "no signed command has ended it: `syncpod adopt` or `syncpod prune` it"
    assert judge(replace(found, ended_here=True), coverage, cluster=HERE).kill
