"""Reduced schedules that once broke an invariant.

Holds: The loop holds under any schedule of faults.
"""

from __future__ import annotations

import pytest

from tests.simulator.faults import Case, Event
from tests.simulator.pods import pod
from tests.simulator.runtime import FOREVER, Life
from tests.simulator.simulation import Simulation, simulate


def test_the_end_of_a_start_back_off_does_not_end_the_crash_loop_back_off() -> None:
    """The node's queue signalled the former, and the container started 5 s after its exit instead of 20 s."""
    spec = {"restartPolicy": "Always", "containers": [{"name": "a", "image": "busybox:1"}]}
    case = Case(pod(spec), {"a": (Life(4.676, 1),)}, (Event(13.802, "step completed by hand", seconds=0.02),))
    assert simulate(case).violation == ""


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_a_replaced_container_starts_again_even_if_its_sandbox_dies_meanwhile(policy: str) -> None:
    """It was killed for its new image, exited 0, and was then believed to have succeeded: nothing ran any more."""
    spec = {"restartPolicy": policy, "containers": [{"name": "a", "image": "busybox:1"}]}
    events = (
        Event(1.221, "PLEG signal stale and overtaken", seconds=61.49),
        Event(4.871, "sandbox dies"),
        Event(5.348, "applied, perhaps another image", name="a", number=1),
    )
    verdict = simulate(Case(pod(spec), {"a": (FOREVER,)}, events))
    assert verdict.violation == ""
    assert any("a, restart 1, runs" in line for line in verdict.trail)


def test_a_start_that_hung_until_the_pod_ended_is_removed_with_the_pod() -> None:
    """The container that it creates at last is never started, and is removed with the pod."""
    spec = {
        "restartPolicy": "Always",
        "containers": [{"name": "b", "image": "busybox:1"}],
        "terminationGracePeriodSeconds": 1,
        "activeDeadlineSeconds": 52,
    }
    events = (Event(4.632, "step hangs", seconds=556.21), Event(324.69, "worker killed", seconds=0.4))
    assert simulate(Case(pod(spec), {"b": (Life(0.029, 1),)}, events)).violation == ""


def test_a_sandbox_being_created_when_its_worker_dies_is_not_left_behind() -> None:
    """Its pod was gone before its RunPodSandbox ended; the runtime rolls back what nobody waits for any more."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox:1"}]}
    events = (
        Event(0.045, "runtime restarted", seconds=48.96),
        Event(0.251, "step hangs", seconds=375.92),
        Event(295.73, "deleted by signal", number=10),
        Event(399.218, "worker killed", seconds=0.31),
    )
    simulation = Simulation(Case(pod(spec), {"a": (FOREVER,)}, events))
    assert simulation.run().violation == ""
    assert simulation.injected["worker killed"]
    assert not simulation.runtime.reserved


def test_a_pruned_successful_init_container_does_not_run_again() -> None:
    """Its recorded end counts in the sandbox in which it ran; the simulated runtime did not tell which that was."""
    spec = {
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "s", "image": "busybox:1", "restartPolicy": "Always"},
            {"name": "i", "image": "busybox:1"},
        ],
        "containers": [{"name": "a", "image": "busybox:1"}],
    }
    lives: dict[str, tuple[Life, ...]] = {"s": (FOREVER,), "i": (Life(0.009),), "a": (Life(0.575, 1),)}
    assert simulate(Case(pod(spec), lives, (Event(1.793, "dead containers pruned", name="i"),))).violation == ""


def test_a_removed_init_container_of_a_dead_sandbox_is_removed_once() -> None:
    """Its record stood for it, and the removal was repeated for ever."""
    spec = {
        "restartPolicy": "Always",
        "initContainers": [{"name": "i", "image": "busybox:1"}],
        "containers": [{"name": "a", "image": "busybox:1"}],
        "terminationGracePeriodSeconds": 1,
    }
    lives: dict[str, tuple[Life, ...]] = {"i": (Life(seconds=0.11, code=1, stop=0.1),), "a": (FOREVER,)}
    assert simulate(Case(pod(spec), lives, (Event(3.397, "sandbox dies"),))).violation == ""


def test_a_cancellation_during_continue_as_new_is_not_lost() -> None:
    """The SDK hands a task's cancellation out last: the run must not have been left by then.

    Holds: Nothing is lost across continue-as-new.
    """
    spec = {"restartPolicy": "Always", "containers": [{"name": "b", "image": "busybox:1"}]}
    events = (
        Event(4.641, "worker upgraded, or taken back", seconds=1.35, number=1),
        Event(4.891, "workflow cancelled"),
    )
    assert simulate(Case(pod(spec), {"b": (FOREVER,)}, events)).violation == ""


@pytest.mark.parametrize("stops", [0.1, None])
def test_a_container_ended_with_its_sandbox_starts_in_the_next_one_whatever_its_exit_code(stops: float | None) -> None:
    """It was stopped as its sandbox had died, exited 0, and its pod was believed to have succeeded."""
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "a", "image": "busybox:1"}]}
    verdict = simulate(Case(pod(spec), {"a": (Life(None, stop=stops),)}, (Event(5.0, "sandbox dies"),)))
    assert verdict.violation == ""
    assert any("a, restart 1, runs" in line for line in verdict.trail)


def test_a_replaced_container_starts_again_although_a_created_one_never_started() -> None:
    """With that listed as the newest, the one that had been ended for its new image counted as the pod's end."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox:1"}]}
    late = tuple(Event(1.0 + number / 10, "step reports late", seconds=0.5) for number in range(3))
    events = (
        *late,  # the kill, a start that finds no image, the pull
        Event(1.3, "step succeeds but reports failure"),  # the start
        Event(2.0, "applied, perhaps another image", name="a", number=2),
    )
    verdict = simulate(Case(pod(spec), {"a": (FOREVER,)}, events))
    assert verdict.violation == ""
    assert any("a, restart 1, runs" in line for line in verdict.trail)


@pytest.mark.parametrize("what", ["node's clock set", "runtime's dates skewed"])
def test_a_clock_set_back_does_not_make_an_older_instance_the_newest(what: str) -> None:
    """The exited one was created later by its date than the one that ran, and another was started beside that."""
    spec = {"restartPolicy": "Always", "containers": [{"name": "a", "image": "busybox:1"}]}
    events = (Event(3.5, what, seconds=-3.0), Event(3.6, "container dies", name="a", number=1))
    verdict = simulate(Case(pod(spec), {"a": (FOREVER,)}, events))
    assert verdict.violation == ""
    assert not any("a, restart 2, runs" in line for line in verdict.trail)


def test_an_exit_without_a_rule_does_not_delay_the_restart_of_all_containers() -> None:
    """The code for which another container has a rule was taken for a second, later request to restart all."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    ruled = {"name": "a", "image": "busybox:1", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    spec = {"restartPolicy": "Always", "containers": [ruled, {"name": "b", "image": "busybox:1"}]}
    ends = (Life(4.488, 1, 0.1), Life(3.355, 1, 0.1), Life(16.757, 42, 0.1))
    lives = {"a": (Life(16.473, 42, 0.1),), "b": ends}
    assert simulate(Case(pod(spec), lives, ())).violation == ""


def test_a_pod_whose_init_container_fails_for_good_in_a_new_sandbox_is_over() -> None:
    """A container that had been ended only so that another followed was believed to be still due."""
    spec = {
        "restartPolicy": "Never",
        "initContainers": [{"name": "j", "image": "busybox:1"}],
        "containers": [{"name": "a", "image": "busybox:1"}],
        "terminationGracePeriodSeconds": 5,
    }
    lives = {"j": (Life(0.009, 0, 0.1), Life(0.009, 1, 0.1)), "a": (FOREVER,)}
    events = (Event(3.038, "sandbox dies"), Event(3.112, "applied, perhaps another image", name="a", number=1))
    assert simulate(Case(pod(spec), lives, events)).violation == ""


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_what_ran_in_a_sandbox_that_died_with_its_worker_is_not_forgotten(policy: str, kind: str) -> None:
    """Its start had begun with its sandbox: both steps were tried again, and cleared it away without a word."""
    spec = {"restartPolicy": policy, "containers": [{"name": "b", "image": "busybox:1"}]}
    spec[kind] = [{"name": "j", "image": "busybox:1"}]
    events = (Event(0.205, "worker killed", seconds=56.49), Event(27.902, "sandbox dies"))
    assert simulate(Case(pod(spec), {"j": (Life(0.108, 0, 0.1),), "b": (FOREVER,)}, events)).violation == ""


def test_a_start_of_a_dead_worker_is_not_forgotten_because_the_container_before_it_has_ended() -> None:
    """It answered that it had not begun although its instance was there, and the pod was killed again and again."""
    spec = {"restartPolicy": "Never", "containers": [{"name": name, "image": "busybox:1"} for name in ("a", "b")]}
    events = (
        Event(0.188, "worker upgraded, or taken back", seconds=0.61, number=2),
        Event(0.21, "runtime restarted", seconds=53.39),
        Event(0.262, "sandbox dies after an exit", name="a", seconds=0.24),
    )
    assert simulate(Case(pod(spec), {"a": (Life(12.555, 1),), "b": (FOREVER,)}, events)).violation == ""


def test_a_pod_that_never_restarts_and_loses_its_sandbox_as_an_init_container_ends_well_has_failed() -> None:
    """It stayed Pending for ever: nothing ran of it, and nothing was due."""
    containers = {name: [{"name": name[0], "image": "busybox:1"}] for name in ("initContainers", "containers")}
    case = Case(
        pod({"restartPolicy": "Never", **containers}),
        {"i": (Life(100.0, 0, 0.5),), "c": (FOREVER,)},
        (Event(50.0, "sandbox dies"),),
    )
    assert simulate(case).violation == ""
