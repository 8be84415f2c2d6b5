"""Restart decisions: policies, rules, and the restart of all containers."""

import pytest

from syncpod.lifecycle.actions import ContainerToReset
from syncpod.lifecycle.restart import (
    container_should_restart,
    matching_rule,
    restarts_on_failure,
    should_container_be_restarted,
)
from syncpod.lifecycle.restart_all import containers_to_reset, should_restart_all
from syncpod.pod import Container, PodSpec
from tests.lifecycle.situation import Situation, act, three_containers, three_init_containers, three_sidecars


def container(policy: str | None = None, *rules: tuple[str, str, tuple[int, ...]]) -> Container:
    return Container.model_validate(
        {
            "name": "foo",
            "restartPolicy": policy,
            "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": operator, "values": values}}
                for action, operator, values in rules
            ],
        }
    )


@pytest.mark.parametrize(
    ("own", "pods", "restarts_after"),
    [
        (None, None, {0, 1}),
        (None, "Always", {0, 1}),
        (None, "OnFailure", {1}),
        (None, "Never", set()),
        ("Always", "Never", {0, 1}),
        ("OnFailure", "Always", {1}),
        ("OnFailure", "Never", {1}),
        ("Never", "Always", set()),
    ],
)
def test_the_containers_restart_policy_overrides_the_pods(
    own: str | None, pods: str | None, restarts_after: set[int]
) -> None:
    """Row 66: the container's policy over the pod's."""
    spec = PodSpec.model_validate({"restartPolicy": pods})
    assert {code for code in (0, 1) if container_should_restart(container(own), spec, code)} == restarts_after
    assert restarts_on_failure(container(own), spec) == (1 in restarts_after)


def test_the_first_matching_restart_rule_applies() -> None:
    """Row 66: the first rule that matches."""
    two = container("Never", ("Restart", "In", (1, 2)), ("RestartAllContainers", "NotIn", (3,)))
    found = [matching_rule(two, code) for code in (2, 3, 4)]
    assert [rule and rule.action for rule in found] == ["Restart", None, "RestartAllContainers"]


def test_rules_precede_the_policy_and_never_forbid_a_restart() -> None:
    """Row 66: a rule, then the container's policy, then the pod's."""
    ruled = container("OnFailure", ("Restart", "In", (0,)))
    assert [container_should_restart(ruled, PodSpec(), code) for code in (0, 1)] == [True, True]


def test_rules_without_a_container_policy_are_ignored() -> None:
    never = PodSpec.model_validate({"restartPolicy": "Never"})
    assert not container_should_restart(container(None, ("Restart", "In", (1,))), never, 1)


def test_a_rule_without_exit_codes_never_matches() -> None:
    bare = Container.model_validate({"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]})
    no_operator = Container.model_validate(
        {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"values": [1]}}]}
    )
    assert matching_rule(bare, 1) is None
    assert matching_rule(no_operator, 1) is None


@pytest.mark.parametrize(
    ("state", "starts"), [("created", True), ("running", False), ("exited", False), ("unknown", True)]
)
def test_with_policy_never_only_containers_that_have_not_exited_start(state: str, starts: bool) -> None:
    s = three_containers().policy("Never").state("foo1", state)  # type: ignore[arg-type]
    foo1 = s.pod.spec.containers[0]
    assert should_container_be_restarted(foo1, s.pod, s.observed.newest("foo1")) is starts
    assert should_container_be_restarted(foo1, s.pod, None)
    deleted = s.deleted().pod
    assert not should_container_be_restarted(foo1, deleted, s.observed.newest("foo1"))
    assert not should_container_be_restarted(foo1, deleted, None)


# --- RestartAllContainers


def whole_restart() -> Situation:
    """Return a pod in which the exit of foo1 with code 42 restarts all containers."""
    s = three_init_containers().running("foo2", "foo3").exited("foo1", code=42)
    return s.rule("foo1", "RestartAllContainers", "In", 42)


def test_a_matching_exit_begins_a_restart_of_all_containers() -> None:
    """Row 75: what triggers it."""
    s = whole_restart()
    assert should_restart_all(s.pod.spec, s.observed, in_progress=False)


@pytest.mark.parametrize(
    "situation",
    [
        whole_restart().exited("foo1", code=41),
        whole_restart().running("foo1"),
        whole_restart().earlier("foo1", "older", "exited", 42).running("foo1"),
        whole_restart().gone("foo1"),
    ],
    ids=["another exit code", "it runs", "only an older instance exited so", "no trace of it"],
)
def test_other_exits_do_not_begin_a_restart_of_all_containers(situation: Situation) -> None:
    assert not should_restart_all(situation.pod.spec, situation.observed, in_progress=False)


def test_a_restart_of_all_continues_until_all_main_and_init_containers_are_removed() -> None:
    s = whole_restart().gone("foo1")
    assert should_restart_all(s.pod.spec, s.observed, in_progress=True)
    s.gone("foo2", "foo3", "init1", "init2", "init3").earlier("debug", "debug-id", "running")
    assert not should_restart_all(s.pod.spec, s.observed, in_progress=True)


def test_main_containers_are_removed_first_then_init_containers_and_the_trigger_last() -> None:
    """Row 75: the order of removal."""
    s = whole_restart().state("init2", "unknown").earlier("foo2", "foo2-old", "exited", 1).restarting_all()
    assert s.decide() == act(
        containers_to_reset=(
            ContainerToReset(id="foo2-id", name="foo2", kill=True),
            ContainerToReset(id="foo2-old", name="foo2", kill=False),
            ContainerToReset(id="foo3-id", name="foo3", kill=True),
            ContainerToReset(id="init1-id", name="init1", kill=False),
            ContainerToReset(id="init2-id", name="init2", kill=True),
            ContainerToReset(id="init3-id", name="init3", kill=False),
            ContainerToReset(id="foo1-id", name="foo1", kill=False),
        )
    )


def test_a_triggering_init_container_is_removed_after_a_triggering_main_container() -> None:
    s = whole_restart().rule("init1", "RestartAllContainers", "NotIn", 0, policy="OnFailure").exited("init1", code=1)
    ids = [reset.id for reset in containers_to_reset(s.pod.spec, s.observed)]
    assert ids[-2:] == ["foo1-id", "init1-id"]


def test_a_container_with_a_plain_restart_rule_is_removed_before_init_containers() -> None:
    s = whole_restart().rule("foo3", "Restart", "In", 1).exited("foo3", code=1)
    ids = [reset.id for reset in containers_to_reset(s.pod.spec, s.observed)]
    assert ids.index("foo3-id") < ids.index("init1-id")


def test_a_restart_of_all_kills_sidecars_and_keeps_ephemeral_and_unknown_containers() -> None:
    s = three_sidecars().with_spec(ephemeralContainers=[{"name": "debug", "image": "busybox"}])
    s.running("debug").earlier("stranger", "stranger-id", "running")
    resets = containers_to_reset(s.pod.spec, s.observed)
    assert {reset.name for reset in resets} == {"foo1", "foo2", "foo3", "init1", "init2", "init3"}
    assert all(reset.kill for reset in resets)


def test_a_created_container_is_killed_before_it_is_removed() -> None:
    s = whole_restart().state("foo2", "created")
    assert [r.kill for r in containers_to_reset(s.pod.spec, s.observed) if r.name == "foo2"] == [True]


def test_a_restart_of_all_without_a_sandbox_requests_one_and_still_lists_the_containers() -> None:
    actions = whole_restart().sandbox(state="SANDBOX_NOTREADY").policy("Never").restarting_all().decide()
    assert (actions.kill_pod, actions.create_sandbox, actions.attempt) == (True, True, 1)
    assert len(actions.containers_to_reset) == 6
    assert actions.init_containers_to_start == ()


def test_a_restart_of_all_decides_nothing_else() -> None:
    s = whole_restart().gone("foo3").redefined("foo2").with_spec(resources={"limits": {"cpu": "1"}})
    actions = s.with_spec(ephemeralContainers=[{"name": "debug", "image": "busybox"}]).restarting_all().decide()
    assert actions == act(containers_to_reset=actions.containers_to_reset)
