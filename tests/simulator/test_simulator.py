"""The simulator itself: seeds are deterministic, failures are reduced, and reported tests can be run."""

from __future__ import annotations

from datetime import timedelta

from tests.simulator.campaign import run_seeds
from tests.simulator.clock import moment
from tests.simulator.faults import EVENTS, Case, Event, draw_case
from tests.simulator.pods import pod
from tests.simulator.report import as_test, table
from tests.simulator.runtime import FOREVER, Life
from tests.simulator.shrink import shrink, signature
from tests.simulator.simulation import Simulation, simulate

TWO = {"restartPolicy": "Always", "containers": [{"name": name, "image": "busybox:1"} for name in ("a", "b")]}


def test_a_seed_is_the_same_simulation_each_time() -> None:
    for seed in (3, 14, 159):
        first, second = simulate(draw_case(seed)), simulate(draw_case(seed))
        assert first.trail == second.trail
        assert first == second


def test_a_failing_case_is_reduced_to_a_minimal_one() -> None:
    events = tuple(Event(float(at), "container dies", "a", number=at) for at in range(40))
    case = Case(pod(TWO), {"a": (Life(1.0, 1), Life(2.0, 1)), "b": (Life(3.0),)}, events, absent=True, max_events=20)

    def fails(candidate: Case) -> bool:
        return {7, 31} <= {event.number for event in candidate.events}

    short = shrink(case, fails)
    assert [event.number for event in short.events] == [7, 31]
    assert [container["name"] for container in short.manifest["spec"]["containers"]] == ["b"]
    assert short.lives == {"b": (FOREVER,)}
    assert not short.absent
    assert not short.max_events


def test_a_reduced_case_is_printed_as_a_test_that_runs() -> None:
    case = Case(pod(TWO), {"a": (Life(1.5, 1),)}, (Event(3.0, "worker killed", seconds=4.0),))
    known = {"Case": Case, "Event": Event, "Life": Life, "pod": pod, "simulate": simulate}
    exec(as_test(case, "two live containers a: restarts [1, 2]", "seed_7"), known)
    known["test_seed_7"]()  # type: ignore[operator]


def test_violations_of_one_invariant_have_the_same_signature() -> None:
    one, other = (
        "a starts 0.19 s after its exit; its back-off is 40 s",
        "b starts 7.5 s after its exit; its back-off is 80 s",
    )
    assert signature(one) == signature(other)
    assert signature(one) != signature("two live containers a: restarts [1, 2]")


def test_every_kind_of_fault_is_drawn_and_counted() -> None:
    drawn = {event.what for seed in range(1_000) for event in draw_case(seed).events}
    assert drawn == set(EVENTS)
    campaign = run_seeds(range(20))
    assert sum(campaign.injected.values()) == sum(len(draw_case(seed).events) for seed in range(20))
    assert table(campaign.injected).count("\n") == len(EVENTS) - 1


def test_newer_decisions_of_an_upgraded_worker_apply_in_a_new_run() -> None:
    case = Case(pod(TWO), {}, (Event(30.0, "worker upgraded, or taken back", seconds=1.0, number=1),))
    verdict = simulate(case)
    assert verdict.violation == ""
    assert verdict.runs == simulate(Case(pod(TWO))).runs + 1


def test_a_pod_refused_a_sandbox_gets_it_soon_after_the_network_is_ready() -> None:
    verdict = simulate(Case(pod(TWO), {}, (Event(0.001, "network not ready", seconds=25.0),)))
    assert verdict.violation == ""
    ready = next(line for line in verdict.trail if "sandbox 0 is ready" in line)  # no attempt was spent
    assert 25.0 < float(ready.split()[0]) < 27.0


def test_an_exit_is_dated_by_the_runtimes_clock() -> None:
    simulation = Simulation(Case(pod(TWO), {"a": (Life(1.0, 1), FOREVER)}))
    simulation.begin()
    simulation.set_clocks(ahead=3600.0, skew=-2.0)
    simulation.clock.run(5.0)
    listed = simulation.server.state.observed
    ended = next(each for each in listed.containers if each.state == "exited")
    assert ended.finished_at == moment(simulation.runtime.containers[ended.id].finished or 0.0) + timedelta(
        seconds=3598
    )
    assert listed.observed_at is not None and moment(3601.0) < listed.observed_at < moment(3605.0)


def hooked(**lifecycle: object) -> dict[str, object]:
    containers = [{"name": "a", "image": "busybox:1", "lifecycle": lifecycle}]
    return {"restartPolicy": "Always", "containers": containers, "terminationGracePeriodSeconds": 10}


HOOK = {"exec": {"command": ["true"]}}


def test_a_container_with_a_failed_post_start_hook_is_killed_and_backs_off() -> None:
    """It restarts at once, as after any first exit; then the crash-loop back-off delays it."""
    twice = (Event(0.0, "postStart hook fails"), Event(0.0, "postStart hook fails"))
    verdict = simulate(Case(pod(hooked(postStart=HOOK)), {}, twice))
    assert verdict.violation == ""
    runs = [float(line.split()[0]) for line in verdict.trail if "a, restart" in line and "runs" in line]
    assert len(runs) == 3
    assert runs[1] - runs[0] < 10.0
    assert runs[2] - runs[1] > 10.0


def test_a_hung_pre_stop_hook_takes_no_longer_than_the_grace() -> None:
    events = (Event(1.0, "preStop hook hangs", seconds=60.0), Event(2.0, "deleted", number=10))
    verdict = simulate(Case(pod(hooked(preStop=HOOK)), {"a": (Life(None, stop=None),)}, events))
    assert verdict.violation == ""
    (killed,) = [float(line.split()[0]) for line in verdict.trail if "gets SIGKILL" in line]
    assert 12.0 < killed < 15.0
