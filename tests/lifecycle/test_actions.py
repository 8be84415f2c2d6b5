"""Properties of the decided actions, for any pod in any state."""

from collections.abc import Sequence
from dataclasses import fields

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from syncpod.lifecycle.actions import PodActions
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.observed import ObservedContainer
from syncpod.lifecycle.restart import is_sidecar, matching_rule
from syncpod.pod import Container
from tests.lifecycle.situation import NO_ACTION, does_nothing
from tests.lifecycle.worlds import Runtime, World, with_reordered_mappings, worlds


def started(world: World, actions: PodActions) -> list[Container]:
    """Return the main and init containers that are to start."""
    spec = world.pod.spec
    return [
        *(spec.init_containers[index] for index in actions.init_containers_to_start),
        *(spec.containers[index] for index in actions.containers_to_start),
    ]


def by_id(world: World) -> dict[str, ObservedContainer]:
    return {container.id: container for container in world.observed.containers}


def actions_do_not_depend_on_the_order_of_mappings(world: World, actions: PodActions) -> None:
    assert with_reordered_mappings(world).decide() == actions


def no_container_starts_while_an_instance_of_it_runs(world: World, actions: PodActions) -> None:
    killed = {kill.id for kill in actions.containers_to_kill}
    for container in started(world, actions):
        newest = world.observed.newest(container.name)
        if newest is not None and newest.state in ("running", "unknown"):
            assert actions.kill_pod or newest.id in killed


def only_the_newest_instance_of_a_container_that_may_run_is_killed(world: World, actions: PodActions) -> None:
    for kill in actions.containers_to_kill:
        status = by_id(world)[kill.id]
        assert status == world.observed.newest(kill.name)
        assert status.state in ("running", "unknown")
        assert kill.message


def a_container_in_unknown_state_is_killed_only_if_it_is_restarted(world: World, actions: PodActions) -> None:
    names = {container.name for container in started(world, actions)}
    for kill in actions.containers_to_kill:
        if kill.cause == KillCause.STATE_LOST:
            assert kill.name in names or actions.kill_pod


def only_running_containers_that_are_kept_are_resized(world: World, actions: PodActions) -> None:
    killed = {kill.id for kill in actions.containers_to_kill}
    for resource, updates in (
        ("memory", actions.containers_to_update.memory),
        ("cpu", actions.containers_to_update.cpu),
    ):
        assert len({update.id for update in updates}) == len(updates)
        for update in updates:
            assert by_id(world)[update.id].state == "running"
            assert update.id not in killed
            values = [
                tuple(getattr(side, f"{resource}_{kind}") for kind in ("limit", "request"))
                for side in (update.desired, update.current)
            ]
            assert values[0] != values[1]


def decreases_are_applied_before_increases(world: World, actions: PodActions) -> None:
    updates = actions.containers_to_update
    for resource, listed in (("memory", updates.memory), ("cpu", updates.cpu)):

        def key(side: object, resource: str = resource) -> tuple[int, int]:
            return getattr(side, f"{resource}_limit"), getattr(side, f"{resource}_request")

        grows = [key(update.desired) > key(update.current) for update in listed]
        assert grows == sorted(grows)


def containers_start_once_each_in_spec_order(world: World, actions: PodActions) -> None:
    for indices in (
        actions.init_containers_to_start,
        actions.containers_to_start,
        actions.ephemeral_containers_to_start,
    ):
        assert list(indices) == sorted(set(indices))


def at_most_one_plain_init_container_starts_and_no_sidecar_after_it(world: World, actions: PodActions) -> None:
    init = world.pod.spec.init_containers
    plain = [not is_sidecar(init[index]) for index in actions.init_containers_to_start]
    assert sum(plain) <= 1
    assert not any(plain[:-1])


def main_containers_never_start_together_with_a_plain_init_container(world: World, actions: PodActions) -> None:
    init = world.pod.spec.init_containers
    if any(not is_sidecar(init[index]) for index in actions.init_containers_to_start):
        assert actions.containers_to_start == ()


def a_pod_killed_without_a_new_sandbox_starts_no_main_or_init_container(world: World, actions: PodActions) -> None:
    if actions.kill_pod and not actions.create_sandbox:
        assert started(world, actions) == []


def a_new_sandbox_requires_killing_the_pod_and_has_a_new_attempt(world: World, actions: PodActions) -> None:
    if actions.create_sandbox:
        assert actions.kill_pod
        assert actions.attempt not in {sandbox.attempt for sandbox in world.observed.sandboxes}
        assert started(world, actions) or world.restart_all


def containers_are_reset_only_in_a_restart_of_all_containers(world: World, actions: PodActions) -> None:
    if not world.restart_all:
        assert actions.containers_to_reset == ()
        return
    fixed = {"kill_pod", "create_sandbox", "sandbox_id", "attempt", "containers_to_reset"}
    assert all(
        getattr(actions, field.name) == getattr(NO_ACTION, field.name)
        for field in fields(actions)
        if field.name not in fixed
    )
    named = {container.name for container in (*world.pod.spec.init_containers, *world.pod.spec.containers)}
    listed = sorted(reset.id for reset in actions.containers_to_reset)
    assert listed == sorted(container.id for container in world.observed.containers if container.name in named)


PROPERTIES = (
    actions_do_not_depend_on_the_order_of_mappings,
    no_container_starts_while_an_instance_of_it_runs,
    only_the_newest_instance_of_a_container_that_may_run_is_killed,
    a_container_in_unknown_state_is_killed_only_if_it_is_restarted,
    only_running_containers_that_are_kept_are_resized,
    decreases_are_applied_before_increases,
    containers_start_once_each_in_spec_order,
    at_most_one_plain_init_container_starts_and_no_sidecar_after_it,
    main_containers_never_start_together_with_a_plain_init_container,
    a_pod_killed_without_a_new_sandbox_starts_no_main_or_init_container,
    a_new_sandbox_requires_killing_the_pod_and_has_a_new_attempt,
    containers_are_reset_only_in_a_restart_of_all_containers,
)


@settings(max_examples=3 * settings().max_examples)
@given(worlds())
def test_every_property_of_decided_actions_holds(world: World) -> None:
    """To draw a world costs far more than to look at it: each is looked at from all sides."""
    actions = world.decide()
    for holds in PROPERTIES:
        holds(world, actions)


@given(worlds(), st.permutations(range(20)))
def test_actions_do_not_depend_on_the_listing_order_of_container_names(world: World, shuffle: Sequence[int]) -> None:
    place = {container.name: shuffle[index] for index, container in enumerate(world.observed.containers)}
    regrouped = tuple(sorted(world.observed.containers, key=lambda container: place[container.name]))
    observed = world.observed.model_copy(update={"containers": regrouped})
    again = World(world.pod, observed, world.liveness, world.startup, world.actuated, world.restart_all)
    assert again.decide() == world.decide()


@given(worlds())
def test_repeated_actions_converge_to_nothing_left_to_do(world: World) -> None:
    """On a runtime where all goes well every pod comes to rest: it runs as its spec says, or it is over."""
    assume(not any(restarts_all_on_success(container) for container in world.pod.spec.init_containers))
    runtime = Runtime(world)
    for _ in range(16):
        now = runtime.world()
        actions = now.decide()
        runtime.carry_out(actions)
        if actions.kill_pod and not actions.create_sandbox:
            assert runtime.running() == []
            return
        for container in runtime.pod.spec.containers:
            instances = [other for other in runtime.running() if other.name == container.name]
            newest = now.observed.newest(container.name)
            older = [other for other in now.observed.containers if other.name == container.name and other != newest]
            assert len([other for other in instances if other not in older]) <= 1
        waiting = [c for c in runtime.containers if runtime_waits_for(runtime, c)]
        if does_nothing(actions) and not waiting:
            break
        runtime.pass_time()
    else:
        pytest.fail("the pod does not come to rest")
    final = runtime.world()
    assert does_nothing(final.decide())
    statuses = final.observed.newest_by_name()
    states = [statuses[container.name].state for container in runtime.pod.spec.containers if container.name in statuses]
    assert "running" in states


def restarts_all_on_success(container: Container) -> bool:
    """Return whether an init container restarts its whole pod each time it completes, without end."""
    rule = matching_rule(container, 0)
    return rule is not None and rule.action == "RestartAllContainers"


def runtime_waits_for(runtime: Runtime, container: ObservedContainer) -> bool:
    """Return whether a container still needs time: to complete, or for its probes to succeed."""
    if container.state != "running":
        return False
    plain = {init.name for init in runtime.pod.spec.init_containers if not is_sidecar(init)}
    return container.name in plain or container.id not in runtime.startup


def test_default_actions_do_nothing() -> None:
    assert does_nothing(PodActions())
    assert does_nothing(PodActions(sandbox_id="sandbox", attempt=3))
    assert not does_nothing(PodActions(update_pod_level_resources=True))


def test_actions_are_immutable() -> None:
    with pytest.raises(AttributeError):
        NO_ACTION.kill_pod = True  # type: ignore[misc]
