"""Which dead containers and sandboxes are collected: all but the newest, which the pod's next decision needs.

Holds: The newest instance of a container is not collected while its pod lives.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.container_gc import (
    ContainerGcPolicy,
    is_dead,
    superfluous_containers,
    superfluous_sandboxes,
)
from syncpod.lifecycle.observed import ContainerRuntimeState, ObservedContainer, ObservedPod, ObservedSandbox

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(days=1)
KEEP_ONE = ContainerGcPolicy()


def instance(
    name: str, restart: int, state: ContainerRuntimeState = "exited", sandbox: str = "s0", uid: str = "u1", at: int = 0
) -> ObservedContainer:
    """An instance made `at` minutes, or in the order of restarts."""
    made = START + timedelta(minutes=at or restart)
    id_ = f"{uid}-{name}-{restart}"
    return ObservedContainer(id=id_, name=name, sandbox_id=sandbox, state=state, restart_count=restart, created_at=made)


def pod(*containers: ObservedContainer, uid: str = "u1", sandboxes: int = 1, ready: bool = True) -> ObservedPod:
    """A pod with this many sandboxes, of which `s0` is the oldest; the newest may be ready."""
    return ObservedPod(
        uid=uid,
        sandboxes=tuple(
            ObservedSandbox(
                id=f"s{attempt}",
                attempt=attempt,
                state="SANDBOX_READY" if ready and attempt == sandboxes - 1 else "SANDBOX_NOTREADY",
            )
            for attempt in range(sandboxes)
        ),
        containers=containers,
    ).ordered()


def gone(*pods: ObservedPod, policy: ContainerGcPolicy = KEEP_ONE, **how: frozenset[str]) -> list[str]:
    chosen = superfluous_containers(pods, policy, LATER, **how)
    return [id_ for ids in chosen.values() for id_ in ids]


def test_the_newest_dead_instance_of_each_name_stays() -> None:
    """Row 107: one dead instance of each (pod, name) is kept, whether a newer one runs or not."""
    running = pod(*(instance("web", n) for n in range(3)), instance("web", 3, "running"))
    assert gone(running) == ["u1-web-0", "u1-web-1"]
    assert gone(pod(*(instance("web", n) for n in range(3)), instance("db", 0))) == ["u1-web-0", "u1-web-1"]
    assert gone(pod(instance("web", 0)), pod(instance("web", 0, uid="u2"), uid="u2")) == []


def test_a_node_may_keep_more_dead_instances() -> None:
    """Row 108: how many are kept is the node's to say."""
    crashed = pod(*(instance("web", n) for n in range(5)))
    assert gone(crashed, policy=ContainerGcPolicy(per_container=3)) == ["u1-web-0", "u1-web-1"]


def test_dead_instances_younger_than_the_minimum_age_are_kept() -> None:
    """Row 107: MinAge."""
    young = pod(instance("web", 0), instance("web", 1, at=24 * 60 - 5), instance("web", 2, at=24 * 60 - 1))
    assert gone(young, policy=ContainerGcPolicy(min_age=timedelta(minutes=10))) == []
    assert gone(young, policy=ContainerGcPolicy(min_age=timedelta(minutes=2))) == ["u1-web-0"]


def test_a_container_that_was_never_started_is_removed_once_nothing_can_start_it() -> None:
    """Row 107: created containers go too, and take no place of one that has run."""
    burnt = pod(instance("web", 0), instance("web", 1), instance("web", 2, "created"))
    assert gone(burnt) == ["u1-web-0"]
    assert gone(burnt, never_started=frozenset({"u1-web-2"})) == ["u1-web-0", "u1-web-2"]


def test_containers_that_may_run_are_kept() -> None:
    """Row 107: neither what runs nor what the runtime has lost sight of."""
    assert gone(pod(instance("web", 0, "unknown"), instance("web", 1, "unknown"), instance("web", 2, "running"))) == []


def test_all_dead_containers_of_an_evicted_pod_are_removed() -> None:
    """Row 108: an evicted pod keeps no dead container."""
    assert gone(pod(instance("web", 0), instance("web", 1)), over=frozenset({"u1"})) == ["u1-web-0", "u1-web-1"]


def test_the_node_limit_removes_the_oldest_but_keeps_the_newest_of_each_pod() -> None:
    """Row 107: the total is unlimited by default; a limit never costs the newest instance of a pod that goes on."""
    one = pod(instance("web", 0, at=1), instance("web", 1, "running", at=9))
    two = pod(instance("web", 0, uid="u2", at=2), uid="u2")
    three = pod(instance("web", 0, uid="u3", at=3), instance("web", 1, "running", uid="u3", at=9), uid="u3")
    assert gone(one, two, three) == []
    assert gone(one, two, three, policy=ContainerGcPolicy(in_all=2)) == ["u1-web-0"]
    assert gone(one, two, three, policy=ContainerGcPolicy(in_all=0)) == ["u1-web-0", "u3-web-0"]


def test_the_node_limit_is_divided_among_containers_with_dead_instances() -> None:
    """Row 107: evictableContainers: a container that only runs is not a unit, and takes no share."""
    alive = pod(*(instance(f"alive-{n}", 0, "running", at=99) for n in range(8)))
    crashed = pod(*(instance(name, n, uid="u2") for name in ("web", "db") for n in range(6)), uid="u2")
    chosen = gone(alive, crashed, policy=ContainerGcPolicy(per_container=6, in_all=10))
    assert sorted(chosen) == ["u2-db-0", "u2-web-0"]


STATES = st.sampled_from(("created", "running", "exited", "unknown"))
INSTANCES = st.lists(st.tuples(st.sampled_from("abc"), STATES), max_size=12)


@given(INSTANCES, st.integers(1, 3), st.integers(-1, 4), st.sets(st.integers(0, 12)))
def test_the_newest_and_all_live_instances_always_stay(
    made: list[tuple[str, ContainerRuntimeState]], kept: int, in_all: int, stale: set[int]
) -> None:
    """Row 107: for any listing and any policy."""
    listing = pod(*(instance(name, number, state) for number, (name, state) in enumerate(made)))
    never_started = frozenset(c.id for c in listing.containers if c.restart_count in stale)
    policy = ContainerGcPolicy(per_container=kept, in_all=in_all)
    chosen = {*gone(listing, policy=policy, never_started=never_started)}
    states = {container.id: container.state for container in listing.containers}
    assert all(states[id_] == "exited" or (states[id_] == "created" and id_ in never_started) for id_ in chosen)
    for name in "abc":
        that_ran = [c for c in listing.containers if c.name == name and c.state != "created"]
        assert not that_ran or that_ran[0].id not in chosen
        dead = [c for c in that_ran if c.state == "exited"]
        assert len([c for c in dead if c.id not in chosen]) <= max(kept, 1)
        if in_all < 0:
            assert all(c.id not in chosen for c in dead[:kept])
    left = pod(*(c for c in listing.containers if c.id not in chosen))
    assert gone(left, policy=policy, never_started=never_started) == [], "what is left is all kept"


def test_dead_sandboxes_are_removed_if_empty_and_not_the_newest() -> None:
    """Row 110: not ready, without containers, and not the newest."""
    assert superfluous_sandboxes(pod(sandboxes=3)) == ("s0", "s1")
    assert superfluous_sandboxes(pod(sandboxes=3, ready=False)) == ("s0", "s1")
    assert superfluous_sandboxes(pod(instance("web", 0, sandbox="s0"), sandboxes=3)) == ("s1",)
    assert superfluous_sandboxes(pod(sandboxes=1, ready=False)) == ()


def test_a_pod_is_dead_once_all_its_containers_and_sandboxes_have_ended() -> None:
    """Row 110: a pod that is gone may be cleared away only then."""
    assert is_dead(pod(instance("web", 0), instance("db", 0, "created"), ready=False))
    assert is_dead(ObservedPod(uid="u1"))
    assert not is_dead(pod(instance("web", 0)))
    assert not is_dead(pod(instance("web", 0, "unknown"), ready=False))
    assert not is_dead(pod(instance("web", 0, "running"), ready=False))
