"""The phase of a pod, situation by situation, over a base pod of one main container."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod, ObservedSandbox
from syncpod.lifecycle.phase import is_static_pod, pod_has_initialized, pod_phase
from syncpod.pod import ContainerStatus, ObjectMeta, Pod

RUNNING: dict[str, Any] = {"state": {"running": {}}}
WAITING: dict[str, Any] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
NOTHING: dict[str, Any] = {}


def exited(code: int, reason: str = "") -> dict[str, Any]:
    return {"state": {"terminated": {"exitCode": code, "reason": reason}}}


def crash_looping(code: int, reason: str = "") -> dict[str, Any]:
    last = {"terminated": {"exitCode": code, "reason": reason}}
    return {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last}


def status(name: str, fields: dict[str, Any]) -> ContainerStatus:
    return ContainerStatus.model_validate({"name": name, **fields})


def phase(
    policy: str | None = "Always",
    *,
    main: dict[str, dict[str, Any] | None],
    init: dict[str, dict[str, Any] | None] | None = None,
    wanted: dict[str, dict[str, Any]] | None = None,
    terminal: bool = False,
    initialized: bool = False,
    static: bool = False,
) -> str:
    """Return the phase of a pod with these containers and their statuses (None: no status).

    `wanted` adds fields to the specification of single containers.
    """

    def spec(names: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "image": "x", **(wanted or {}).get(name, {})} for name in names]

    pod = Pod.model_validate(
        {
            "metadata": {"annotations": {"kubernetes.io/config.source": "file"} if static else {}},
            "spec": {"restartPolicy": policy, "containers": spec(main), "initContainers": spec(init or {})},
        }
    )
    return pod_phase(
        pod,
        [status(name, fields) for name, fields in (init or {}).items() if fields is not None],
        [status(name, fields) for name, fields in main.items() if fields is not None],
        pod_is_terminal=terminal,
        pod_has_initialized=initialized,
    )


SIDECAR = {"restartPolicy": "Always"}
RESTART_ON_42 = {
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
}

SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "no status at all": ("Pending", {"main": {"a": None}}),
    "waiting to start": ("Pending", {"main": {"a": WAITING}}),
    "one waits, one runs": ("Pending", {"main": {"a": WAITING, "b": RUNNING}}),
    "one unknown, one runs": ("Pending", {"main": {"a": None, "b": RUNNING}}),
    "a status without a state": ("Pending", {"main": {"a": NOTHING}}),
    "all run": ("Running", {"main": {"a": RUNNING, "b": RUNNING}}),
    "one runs, one has failed for good": ("Running", {"policy": "Never", "main": {"a": RUNNING, "b": exited(1)}}),
    "always: exited containers come back": ("Running", {"main": {"a": exited(0), "b": exited(1)}}),
    "always: in back-off": ("Running", {"main": {"a": crash_looping(1)}}),
    "no policy is always": ("Running", {"policy": None, "main": {"a": exited(0)}}),
    "on failure: all succeeded": ("Succeeded", {"policy": "OnFailure", "main": {"a": exited(0), "b": exited(0)}}),
    "on failure: one failed and comes back": (
        "Running",
        {"policy": "OnFailure", "main": {"a": exited(0), "b": exited(1)}},
    ),
    "on failure: in back-off": ("Running", {"policy": "OnFailure", "main": {"a": crash_looping(1), "b": exited(0)}}),
    "never: all succeeded": ("Succeeded", {"policy": "Never", "main": {"a": exited(0)}}),
    "never: one failed": ("Failed", {"policy": "Never", "main": {"a": exited(0), "b": exited(7)}}),
    "never, but a rule brings it back": (
        "Running",
        {"policy": "Never", "main": {"a": exited(42)}, "wanted": {"a": RESTART_ON_42}},
    ),
    "always, but the container never": (
        "Failed",
        {"main": {"a": exited(1)}, "wanted": {"a": {"restartPolicy": "Never"}}},
    ),
    "never, but all containers begin anew": (
        "Running",
        {"policy": "Never", "main": {"a": crash_looping(137, "RestartingAllContainers")}},
    ),
    "stopped for good: succeeded whatever the policy": ("Succeeded", {"main": {"a": exited(0)}, "terminal": True}),
    "stopped for good: failed whatever the policy": ("Failed", {"main": {"a": exited(143)}, "terminal": True}),
    "stopped for good while in back-off": ("Failed", {"main": {"a": crash_looping(0)}, "terminal": True}),
    "a static pod is not terminal for being stopped": (
        "Running",
        {"main": {"a": exited(143)}, "terminal": True, "static": True},
    ),
    "an init container runs": ("Pending", {"init": {"i": RUNNING}, "main": {"a": WAITING}}),
    "an init container has no status": ("Pending", {"init": {"i": None}, "main": {"a": RUNNING}}),
    "an init container failed and is retried": ("Pending", {"init": {"i": crash_looping(1)}, "main": {"a": WAITING}}),
    "an init container failed for good": (
        "Failed",
        {"policy": "Never", "init": {"i": exited(1)}, "main": {"a": WAITING}},
    ),
    "an init container that may not restart, waits": (
        "Failed",
        {"policy": "Never", "init": {"i": crash_looping(1)}, "main": {"a": WAITING}},
    ),
    "init done, main runs": ("Running", {"init": {"i": exited(0)}, "main": {"a": RUNNING}}),
    "a sidecar that has not started yet": (
        "Pending",
        {"init": {"s": RUNNING}, "main": {"a": WAITING}, "wanted": {"s": SIDECAR}},
    ),
    "a sidecar starts again beside running containers": (
        "Running",
        {"init": {"s": RUNNING}, "main": {"a": RUNNING}, "wanted": {"s": SIDECAR}, "initialized": True},
    ),
    "a sidecar in back-off does not count": (
        "Running",
        {"init": {"s": crash_looping(1)}, "main": {"a": RUNNING}, "wanted": {"s": SIDECAR}},
    ),
    "a sidecar alone still runs": (
        "Running",
        {
            "policy": "Never",
            "init": {"s": RUNNING | {"started": True}},
            "main": {"a": exited(0)},
            "wanted": {"s": SIDECAR},
        },
    ),
    "sidecars have ended with the pod": (
        "Succeeded",
        {"policy": "Never", "init": {"s": exited(137)}, "main": {"a": exited(0)}, "wanted": {"s": SIDECAR}},
    ),
}


@pytest.mark.parametrize(("expected", "situation"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_the_phase_of_a_pod(expected: str, situation: dict[str, Any]) -> None:
    assert phase(**situation) == expected


def test_a_pod_without_statuses_is_pending() -> None:
    pod = Pod.model_validate({"spec": {"containers": [{"name": "a"}]}})
    assert pod_phase(pod, None, None, pod_is_terminal=False, pod_has_initialized=False) == "Pending"


@pytest.mark.parametrize(("source", "static"), [(None, False), ("api", False), ("file", True), ("http", True)])
def test_a_static_pod_is_recognised_by_its_source(source: str | None, static: bool) -> None:
    annotations = {"kubernetes.io/config.source": source} if source else {}
    assert is_static_pod(Pod.model_validate({"metadata": {"annotations": annotations}})) is static


@pytest.mark.parametrize(
    ("state", "container", "sandbox", "initialized"),
    [
        pytest.param("SANDBOX_READY", "a", "s1", True, id="a main container in the current sandbox"),
        pytest.param("SANDBOX_READY", "a", "s0", False, id="one of an earlier sandbox"),
        pytest.param("SANDBOX_READY", "i", "s1", False, id="an init container"),
        pytest.param("SANDBOX_NOTREADY", "a", "s1", False, id="the newest sandbox is dead"),
    ],
)
def test_a_pod_with_a_main_container_in_its_current_sandbox_has_initialized(
    state: Any, container: str, sandbox: str, initialized: bool
) -> None:
    pod = Pod.model_validate({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}})
    observed = ObservedPod(
        sandboxes=(ObservedSandbox(id="s1", attempt=1, state=state), ObservedSandbox(id="s0")),
        containers=(ObservedContainer(id="c", name=container, sandbox_id=sandbox, state="exited"),),
    )
    assert pod_has_initialized(pod, observed) is initialized


states = st.sampled_from([None, NOTHING, RUNNING, WAITING, exited(0), exited(1), crash_looping(0), crash_looping(1)])
policies = st.sampled_from(["Always", "OnFailure", "Never"])


@given(policies, st.lists(states, min_size=1, max_size=3))
def test_a_pod_succeeds_only_if_every_main_container_exited_with_0(policy: str, mains: list[Any]) -> None:
    got = phase(policy, main={f"m{i}": state for i, state in enumerate(mains)}, terminal=True)
    assert (got == "Succeeded") == all(state == exited(0) for state in mains)


@given(policies, st.lists(states, min_size=1, max_size=3))
def test_a_pod_with_a_running_container_is_never_over(policy: str, mains: list[Any]) -> None:
    got = phase(policy, main={"up": RUNNING, **{f"m{i}": state for i, state in enumerate(mains)}}, terminal=True)
    assert got in ("Pending", "Running")


def test_a_pod_of_a_kubernetes_cluster_is_no_static_pod() -> None:
    """So it is evicted like any other, and Failed once it is gone before its end."""
    sources = {"file": True, "http": True, "api": False, "kubernetes": False}
    for source, is_static in sources.items():
        metadata = ObjectMeta(annotations={"kubernetes.io/config.source": source})
        assert is_static_pod(Pod(metadata=metadata)) is is_static
    assert not is_static_pod(Pod())
