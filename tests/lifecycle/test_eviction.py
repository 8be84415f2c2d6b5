"""When a node is under pressure, which pod it evicts, and the message, by the kubelet's rules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.lifecycle.eviction import (
    RESOURCES,
    EvictionPolicy,
    Observation,
    Observations,
    Pressure,
    PressureState,
    Signal,
    admission_refusal,
    grace_seconds,
    look,
    thresholds_met,
)
from syncpod.lifecycle.eviction_ranking import (
    Candidate,
    ContainerUsage,
    PodUsage,
    Written,
    eviction_message,
    ranked,
)
from syncpod.lifecycle.eviction_settings import EvictionSettingInvalid, EvictionSettings, eviction_policy
from syncpod.lifecycle.phase import is_critical
from syncpod.pod import Pod

MI, GI = 2**20, 2**30
DEFAULTS = eviction_policy(EvictionSettings())
PLENTY: Observations = dict.fromkeys(RESOURCES, Observation(90 * GI, 100 * GI))


def policy(**settings: str) -> EvictionPolicy:
    return eviction_policy(EvictionSettings(**settings))


def seen(**left: int) -> Observations:
    """Plenty of every signal except for the named ones (`_` for the dot), in GiB of 100."""
    return {**PLENTY, **{_signal(name): Observation(number, 100 * GI) for name, number in left.items()}}


def _signal(name: str) -> Signal:
    return next(signal for signal in RESOURCES if signal == name.replace("_", "."))


def pod(name: str = "web", *, qos: str = "burstable", priority: int | None = None, **requests: str) -> Pod:
    """A pod of one container `c` with these requests (`ephemeral` for ephemeral-storage)."""
    asked = {{"ephemeral": "ephemeral-storage"}.get(key, key): text for key, text in requests.items()}
    if qos == "burstable" and not asked:
        asked = {"cpu": "1m"}
    container = {"name": "c", "image": "x", "resources": {"requests": asked}}
    spec: dict[str, Any] = {"containers": [container], "priority": priority}
    return Pod.model_validate({"metadata": {"name": name, "uid": name}, "spec": spec})


def uses(
    memory: int = 0, *, layer: int = 0, logs: int = 0, volumes: int = 0, inodes: int = 0, pids: int = 0
) -> PodUsage:
    """The usage of a pod in bytes, and in inodes, which are all in its layer."""
    container = ContainerUsage("c", memory=memory, layer=Written(layer, inodes), logs=Written(logs))
    return PodUsage((container,), Written(volumes), pids)


# --- thresholds -------------------------------------------------------------------------------------------------------


def test_the_hard_defaults_are_the_kubelets_and_one_of_processes() -> None:
    """Row 118: memory 100Mi, nodefs 10 % and 5 % of inodes, imagefs 15 % and 5 %; five minutes. Ours: 10 % of pids."""
    found = {each.signal: (each.value.number, round(each.value.part, 4), each.hard) for each in DEFAULTS.thresholds}
    assert found == {
        "memory.available": (100 * MI, 0.0, True),
        "nodefs.available": (0, 0.1, True),
        "nodefs.inodesFree": (0, 0.05, True),
        "imagefs.available": (0, 0.15, True),
        "imagefs.inodesFree": (0, 0.05, True),
        "pid.available": (0, 0.1, True),
    }
    assert DEFAULTS.transition_seconds == 300


@pytest.mark.parametrize(
    ("left", "signals"),
    [
        ({}, []),
        ({"memory_available": 100 * MI}, []),
        ({"memory_available": 100 * MI - 1}, ["memory.available"]),
        ({"nodefs_available": 9 * GI}, ["nodefs.available"]),
        ({"nodefs_available": 11 * GI, "imagefs_available": 11 * GI}, ["imagefs.available"]),
        ({"nodefs_inodesFree": 4 * GI, "imagefs_inodesFree": 4 * GI}, ["nodefs.inodesFree", "imagefs.inodesFree"]),
        ({"pid_available": 0}, ["pid.available"]),
    ],
)
def test_a_threshold_is_met_below_what_it_says(left: dict[str, int], signals: list[str]) -> None:
    """Row 118: less than, as the kubelet's one operator."""
    assert [each.signal for each in thresholds_met(DEFAULTS.thresholds, seen(**left))] == signals


def test_an_unmeasured_signal_meets_no_threshold() -> None:
    """Row 118: no observation, no threshold."""
    assert thresholds_met(DEFAULTS.thresholds, {}) == ()


def test_memory_pressure_is_handled_before_other_resources() -> None:
    """Row 118: byEvictionPriority."""
    short = seen(nodefs_available=GI, memory_available=MI, imagefs_available=GI)
    _, pressure = look(DEFAULTS, PressureState(), short, 0.0)
    assert pressure.thresholds[0].signal == "memory.available"
    assert pressure.conditions == ("DiskPressure", "MemoryPressure")


def test_a_pressure_condition_lasts_five_minutes_after_its_threshold_was_met() -> None:
    """Row 118: pressure transition period."""
    state, pressure = look(DEFAULTS, PressureState(), seen(memory_available=MI), 0.0)
    assert pressure.conditions == ("MemoryPressure",)
    state, pressure = look(DEFAULTS, state, seen(), 10.0)
    assert (pressure.conditions, pressure.thresholds) == (("MemoryPressure",), ())
    state, pressure = look(DEFAULTS, state, seen(), 299.0)
    assert pressure.conditions == ("MemoryPressure",)
    state, pressure = look(DEFAULTS, state, seen(), 300.0)
    assert pressure == Pressure()


def test_a_soft_threshold_sets_the_condition_at_once_and_evicts_after_its_grace() -> None:
    """Row 118: soft thresholds, their grace, and the least that is to be reclaimed."""
    soft = policy(
        hard="none",
        soft="memory.available<1Gi",
        soft_grace_period="memory.available=1m30s",
        minimum_reclaim="memory.available=512Mi",
        max_pod_grace_period="20",
    )
    state, pressure = look(soft, PressureState(), seen(memory_available=GI // 2), 0.0)
    assert (pressure.conditions, pressure.thresholds) == (("MemoryPressure",), ())
    state, pressure = look(soft, state, seen(memory_available=GI // 2), 89.0)
    assert pressure.thresholds == ()
    state, pressure = look(soft, state, seen(memory_available=GI // 2), 90.0)
    (threshold,) = pressure.thresholds
    assert [grace_seconds(pod(), threshold, soft)] == [20]
    brief = pod().model_copy(update={"spec": pod().spec.model_copy(update={"termination_grace_period_seconds": 5})})
    assert grace_seconds(brief, threshold, soft) == 5
    state, pressure = look(soft, state, seen(memory_available=GI), 100.0)
    assert pressure.thresholds == (threshold,), "512Mi more have to be free"
    state, pressure = look(soft, state, seen(memory_available=GI + GI // 2), 110.0)
    assert pressure.thresholds == ()
    state, _ = look(soft, state, seen(memory_available=GI // 2), 120.0)
    state, pressure = look(soft, state, seen(memory_available=GI // 2), 200.0)
    assert pressure.thresholds == (), "its grace began anew"


def test_a_hard_threshold_evicts_with_a_grace_of_one_second() -> None:
    """Row 118: grace 1 s."""
    assert grace_seconds(pod(), DEFAULTS.thresholds[0], DEFAULTS) == 1


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 3 * GI)), max_size=12))
def test_pressure_holds_exactly_if_a_threshold_was_met_in_the_last_five_minutes(
    looks: list[tuple[float, int]],
) -> None:
    """Row 118: over any course of events."""
    state, now, short_at = PressureState(), 0.0, -1e9
    for pause, left in looks:
        now += pause
        state, pressure = look(DEFAULTS, state, seen(memory_available=left), now)
        if left < 100 * MI:
            short_at = now
        assert (pressure.thresholds != ()) == (left < 100 * MI)
        assert (pressure.conditions != ()) == (now - short_at < 300)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_configured_threshold_replaces_only_its_own_default() -> None:
    """Row 118: thresholds are settable, and 0% takes one away."""
    named = policy(hard="memory.available<5%, nodefs.available<0%, pid.available<1k")
    assert [(each.signal, each.value.of(1000)) for each in named.thresholds] == [
        ("memory.available", 50),
        ("nodefs.inodesFree", 50),
        ("imagefs.available", 150),
        ("imagefs.inodesFree", 50),
        ("pid.available", 1000),
    ]
    assert policy(hard="none").thresholds == ()


@pytest.mark.parametrize(
    ("settings", "setting", "says"),
    [
        ({"hard": "memory.free<1Gi"}, "hard", "signals are memory.available"),
        ({"hard": "memory.available=1Gi"}, "hard", "'<' and a value"),
        ({"hard": "memory.available<lots"}, "hard", "must be a quantity"),
        ({"hard": "memory.available<0"}, "hard", "more than 0"),
        ({"hard": "memory.available<101%"}, "hard", "at most 100%"),
        ({"hard": "memory.available<1Gi,memory.available<2Gi"}, "hard", "twice"),
        ({"soft": "memory.available<1Gi"}, "soft_grace_period", "memory.available=1m30s"),
        (
            {"soft": "memory.available<1Gi", "soft_grace_period": "memory.available=soon"},
            "soft_grace_period",
            "duration",
        ),
        ({"minimum_reclaim": "memory.available=-1Gi"}, "minimum_reclaim", "negative"),
        ({"max_pod_grace_period": "1m"}, "max_pod_grace_period", "whole number of seconds"),
        ({"pressure_transition_period": "5"}, "pressure_transition_period", "duration"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, str], setting: str, says: str) -> None:
    with pytest.raises(EvictionSettingInvalid, match=says) as refused:
        policy(**settings)
    assert refused.value.setting == setting


# --- who goes first ---------------------------------------------------------------------------------------------------


def order(signal: Signal, *pods: tuple[Pod, PodUsage | None], dedicated: bool = False) -> list[str]:
    candidates = [Candidate(*each) for each in pods]
    return [each.pod.metadata.name for each in ranked(signal, candidates, dedicated_images=dedicated)]


def test_under_memory_pressure_pods_above_their_request_go_first_whatever_their_priority() -> None:
    """Row 118: rankMemoryPressure: exceeds requests, priority, usage over requests."""
    assert order(
        "memory.available",
        (pod("within-low", priority=-5, memory="2Gi"), uses(GI)),
        (pod("over-high", priority=100, memory="1Gi"), uses(2 * GI)),
        (pod("over-low-little", priority=1, memory="1Gi"), uses(GI + MI)),
        (pod("over-low-much", priority=1), uses(GI)),
        (pod("unknown", priority=1000), None),
        (pod("within-low-more", priority=-5, memory="2Gi"), uses(GI + MI)),
    ) == ["unknown", "over-low-much", "over-low-little", "over-high", "within-low-more", "within-low"]


def test_disk_usage_counts_all_writes_unless_images_have_their_own_disk() -> None:
    """Row 118: rankDiskPressureFunc, with and without a dedicated imagefs."""
    pods = (
        (pod("layer"), uses(layer=5 * MI)),
        (pod("logs"), uses(logs=3 * MI)),
        (pod("volume"), uses(volumes=4 * MI)),
        (pod("asked", ephemeral="1Gi"), uses(volumes=9 * MI)),
    )
    together = ["layer", "volume", "logs", "asked"]
    assert order("nodefs.available", *pods) == order("imagefs.available", *pods) == together
    assert order("nodefs.available", *pods, dedicated=True)[:2] == ["volume", "logs"]
    assert order("imagefs.available", *pods, dedicated=True)[0] == "layer"


def test_under_inode_pressure_inodes_count_and_storage_requests_still_rank() -> None:
    """Row 118: of inodes nobody requests any."""
    assert order(
        "nodefs.inodesFree",
        (pod("few"), uses(layer=9 * GI, inodes=10)),
        (pod("many"), uses(inodes=5000)),
        (pod("none"), uses()),
        (pod("asked", ephemeral="1Gi"), uses(inodes=9000)),
    ) == ["many", "few", "asked", "none"]


def with_spec(made: Pod, **spec: Any) -> Pod:
    """The pod with more fields of its spec, in the API's spelling."""
    return Pod.model_validate({"metadata": made.metadata, "spec": {**made.spec.model_dump(by_alias=True), **spec}})


def test_overhead_adds_to_the_request_only_of_a_pod_with_requests() -> None:
    """Row 118: GetResourceRequestQuantity."""
    idle, busy = pod("idle"), pod("busy", memory="1Mi")
    overhead = {"memory": "120Mi"}
    assert order(
        "memory.available",
        (pod("asks", memory="20Mi"), uses(30 * MI)),
        (with_spec(idle, overhead=overhead), uses(50 * MI)),
        (with_spec(busy, overhead=overhead), uses(60 * MI)),
    ) == ["idle", "asks", "busy"]


def test_pod_level_requests_replace_container_requests_in_the_ranking() -> None:
    """Row 118: GetResourceRequestQuantity: not even of storage, which no pod asks for as a whole."""
    whole = pod("whole", priority=0, memory="50Mi", ephemeral="1Gi")
    assert order(
        "nodefs.available",
        (pod("asks-nothing", priority=10), uses(layer=MI)),
        (with_spec(whole, resources={"requests": {"memory": "60Mi"}}), uses(layer=500 * MI)),
    ) == ["whole", "asks-nothing"]
    assert order(
        "memory.available",
        (with_spec(whole, resources={"requests": {"memory": "60Mi"}}), uses(55 * MI)),
        (pod("over", priority=10, memory="1Mi"), uses(2 * MI)),
        (with_spec(pod("empty", memory="2Gi"), resources={}), uses(GI)),
    ) == ["over", "whole", "empty"]


def test_under_pid_pressure_priority_ranks_first_and_then_the_number_of_processes() -> None:
    """Row 118: rankPIDPressure."""
    assert order(
        "pid.available",
        (pod("high", priority=9), uses(pids=900)),
        (pod("low-few", priority=1), uses(pids=2)),
        (pod("low-many", priority=1), uses(pids=20)),
        (pod("high-unknown", priority=9), None),
    ) == ["low-many", "low-few", "high-unknown", "high"]


def test_critical_and_static_pods_are_never_evicted() -> None:
    """Row 118: critical pods are exempt."""
    static = pod("static")
    static = static.model_copy(
        update={"metadata": static.metadata.model_copy(update={"annotations": {"kubernetes.io/config.source": "file"}})}
    )
    system = pod("system", priority=2_000_001_000)
    assert is_critical(static)
    assert is_critical(system)
    assert not is_critical(pod("web", priority=1_999_999_999))
    assert order("memory.available", (static, uses(GI)), (system, uses(GI)), (pod("web"), uses(1))) == ["web"]


PODS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 4), st.one_of(st.none(), st.integers(0, 8))), max_size=8)


@given(PODS)
def test_any_two_neighbours_are_ranked_by_the_kubelets_rules(
    made: list[tuple[int, int, int | None]],
) -> None:
    """Row 118: of any two, the one that goes first is so by the first rule that tells them apart."""
    candidates = [
        Candidate(pod(f"p{n}", priority=priority, memory=f"{asked}Mi"), None if used is None else uses(used * MI))
        for n, (priority, asked, used) in enumerate(made)
    ]
    ordered = ranked("memory.available", candidates)
    assert sorted(each.pod.metadata.name for each in ordered) == sorted(c.pod.metadata.name for c in candidates)
    figures = {f"p{n}": each for n, each in enumerate(made)}
    for first, second in pairwise(figures[each.pod.metadata.name] for each in ordered):
        if first[2] is None or second[2] is None:
            if second[2] is None:
                assert first[2] is None
                assert first[0] <= second[0]
            continue
        exceeds = (first[2] > first[1], second[2] > second[1])
        assert exceeds != (False, True)
        if exceeds[0] == exceeds[1]:
            assert first[0] <= second[0]
            if first[0] == second[0]:
                assert first[2] - first[1] >= second[2] - second[1]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_eviction_message_names_resource_threshold_and_containers_above_their_request() -> None:
    """Row 118: evictionMessage."""
    _, pressure = look(DEFAULTS, PressureState(), seen(memory_available=60 * MI), 0.0)
    greedy = Candidate(pod(memory="50Mi"), uses(75 * MI))
    assert eviction_message(greedy, "memory", pressure.thresholds, seen(memory_available=60 * MI)) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. "
        "Container c was using 75Mi, request is 50Mi, has larger consumption of memory. "
    )
    modest = Candidate(pod(memory="1Gi"), uses(75 * MI))
    assert eviction_message(modest, "memory", (), {}) == "The node was low on resource: memory. "


def test_a_percentage_threshold_is_shown_as_a_quantity() -> None:
    """Row 118: GetThresholdQuantity."""
    left = {**PLENTY, "nodefs.available": Observation(1234567, 100 * MI)}
    _, pressure = look(DEFAULTS, PressureState(), left, 0.0)
    writer = Candidate(pod(), uses(layer=3 * MI, logs=MI))
    assert eviction_message(writer, "ephemeral-storage", pressure.thresholds, left) == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Mi, available: 1234567. "
        "Container c was using 4Mi, request is 0, has larger consumption of ephemeral-storage. "
    )


def test_the_eviction_message_names_pod_level_resources() -> None:
    """Row 118: pod-level resources are named before the containers."""
    whole = pod("whole", memory="50Mi")
    resources = whole.spec.containers[0].resources.model_copy(update={"requests": {"memory": "60Mi"}})
    whole = whole.model_copy(update={"spec": whole.spec.model_copy(update={"resources": resources})})
    assert eviction_message(Candidate(whole, uses(75 * MI)), "memory", (), {}) == (
        "The node was low on resource: memory. "
        "Pod whole was using 75Mi, request is 60Mi, has larger consumption of memory. "
        "Container c was using 75Mi, request is 50Mi, has larger consumption of memory. "
    )


# --- who is let in ----------------------------------------------------------------------------------------------------


def tolerating(key: str) -> Pod:
    best_effort = pod(qos="besteffort")
    document = {"tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"}], "containers": []}
    spec = Pod.model_validate({"metadata": {"name": "x"}, "spec": document}).spec
    return best_effort.model_copy(
        update={"spec": best_effort.spec.model_copy(update={"tolerations": spec.tolerations})}
    )


@pytest.mark.parametrize(
    ("newcomer", "conditions", "message"),
    [
        (pod(qos="besteffort"), (), ""),
        (pod(qos="besteffort"), ("MemoryPressure",), "The node had condition: [MemoryPressure]. "),
        (pod(memory="1Mi"), ("MemoryPressure",), ""),
        (tolerating("node.kubernetes.io/memory-pressure"), ("MemoryPressure",), ""),
        (
            tolerating("node.kubernetes.io/disk-pressure"),
            ("MemoryPressure",),
            "The node had condition: [MemoryPressure]. ",
        ),
        (pod(memory="1Mi"), ("DiskPressure",), "The node had condition: [DiskPressure]. "),
        (
            pod(memory="1Mi"),
            ("DiskPressure", "MemoryPressure"),
            "The node had condition: [DiskPressure MemoryPressure]. ",
        ),
        (pod(priority=2_000_000_000), ("DiskPressure", "MemoryPressure"), ""),
    ],
)
def test_a_node_under_pressure_admits_the_pods_that_the_kubelet_admits(
    newcomer: Pod, conditions: tuple[Any, ...], message: str
) -> None:
    """Row 118: Admit."""
    assert admission_refusal(newcomer, conditions) == message
