"""Makes the series of kube-state-metrics (docs/metrics/workload/pod-metrics.md, v2.17) from pods' statuses.

The alerts and dashboards of kubernetes-mixin use these names, labels and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Wire = Mapping[str, Any]
"""A Pod, or a part of one, as JSON."""
Sample = tuple[str, tuple[str, ...], float]
"""A series' name, the values of its labels after namespace, pod and uid, and its value."""

PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
REASONS: Final = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
"""The reasons for which kube-state-metrics has a series."""
_WHO: Final = ("namespace", "pod", "uid")
_CONTAINER: Final = {
    "info": ("image", "image_spec", "image_id", "container_id"),
    "status_ready": (),
    "status_running": (),
    "status_waiting": (),
    "status_waiting_reason": ("reason",),
    "status_terminated": (),
    "status_terminated_reason": ("reason",),
    "status_last_terminated_reason": ("reason",),
    "status_last_terminated_exitcode": (),
    "status_restarts_total": (),
    "state_started": (),
}
_POD: Final = {
    "kube_pod_info": (
        "host_ip",
        "pod_ip",
        "node",
        "created_by_kind",
        "created_by_name",
        "priority_class",
        "host_network",
    ),
    "kube_pod_owner": ("owner_kind", "owner_name", "owner_is_controller"),
    "kube_pod_created": (),
    "kube_pod_start_time": (),
    "kube_pod_deletion_timestamp": (),
    "kube_pod_restart_policy": ("type",),
    "kube_pod_status_phase": ("phase",),
    "kube_pod_status_reason": ("reason",),
    "kube_pod_status_ready": ("condition",),
    "kube_pod_status_scheduled": ("condition",),
}
_KINDS: Final = {"container": "containerStatuses", "init_container": "initContainerStatuses"}
_LABELS: Final = {
    name: (*_WHO, *labels)
    for name, labels in (
        *_POD.items(),
        *(
            (f"kube_pod_{kind}_{what}", ("container", *labels))
            for kind in _KINDS
            for what, labels in _CONTAINER.items()
        ),
    )
}


def pod_series(pods: Iterable[Wire]) -> Sequence[Metric]:
    """Return the series of these pods, by name."""
    families: dict[str, Metric] = {}
    for pod in pods:
        meta = pod.get("metadata", {})
        who = tuple(str(meta.get(each, "")) for each in ("namespace", "name", "uid"))
        for name, labels, value in pod_samples(pod):
            if name not in families:
                families[name] = _family(name)
            families[name].add_metric((*who, *labels), value)  # type: ignore[attr-defined]  # each kind has it
    return [families[name] for name in sorted(families)]


def _family(name: str) -> Metric:
    text = f"As kube-state-metrics has it: {name}."
    if name.endswith("_total"):
        return CounterMetricFamily(name, text, labels=_LABELS[name])
    return GaugeMetricFamily(name, text, labels=_LABELS[name])


def pod_samples(pod: Wire) -> Iterator[Sample]:
    """Yield all samples of one pod."""
    yield from _of_pod(pod.get("metadata", {}), pod.get("spec", {}), pod.get("status", {}))
    for kind, statuses in _KINDS.items():
        for status in pod.get("status", {}).get(statuses, ()):
            for what, labels, value in _of_container(status, pod.get("spec", {})):
                yield f"kube_pod_{kind}_{what}", (status["name"], *labels), value


def _of_pod(meta: Wire, spec: Wire, status: Wire) -> Iterator[Sample]:
    node, host_network = spec.get("nodeName", ""), str(bool(spec.get("hostNetwork"))).lower()
    address = (status.get("hostIP", ""), status.get("podIP", ""), node)
    owners = meta.get("ownerReferences") or ()
    creator = next((_owner(each) for each in owners if each.get("controller")), ("", ""))
    yield "kube_pod_info", (*address, *creator, spec.get("priorityClassName", ""), host_network), 1
    for each in owners:
        yield "kube_pod_owner", (*_owner(each), str(bool(each.get("controller"))).lower()), 1
    if not owners:  # only pods of a cluster have any
        yield "kube_pod_owner", ("", "", ""), 1
    yield "kube_pod_restart_policy", (spec.get("restartPolicy", "Always"),), 1
    for name, at in (
        ("kube_pod_created", meta.get("creationTimestamp")),
        ("kube_pod_start_time", status.get("startTime")),
        ("kube_pod_deletion_timestamp", meta.get("deletionTimestamp")),
    ):
        if at:
            yield name, (), seconds(at)
    yield from _one_of("kube_pod_status_phase", PHASES, status.get("phase", ""))
    yield from _one_of("kube_pod_status_reason", REASONS, status.get("reason", ""))
    conditions = {each["type"]: each["status"].lower() for each in status.get("conditions", ())}
    for name, type_ in (("kube_pod_status_ready", "Ready"), ("kube_pod_status_scheduled", "PodScheduled")):
        if type_ in conditions:
            yield from _one_of(name, ("true", "false", "unknown"), conditions[type_])


def _owner(reference: Wire) -> tuple[str, str]:
    return reference.get("kind", ""), reference.get("name", "")


def _of_container(status: Wire, spec: Wire) -> Iterator[Sample]:
    """Yield the samples of one container, without the prefix of their names and without the container's name."""
    state, last = status.get("state", {}), status.get("lastState", {}).get("terminated")
    named = {
        each["name"]: each.get("image", "") for each in (*spec.get("containers", ()), *spec.get("initContainers", ()))
    }
    image = (status.get("image", ""), named.get(status["name"], ""))
    yield "info", (*image, status.get("imageID", ""), status.get("containerID", "")), 1
    yield "status_ready", (), bool(status.get("ready"))
    yield "status_restarts_total", (), status.get("restartCount", 0)
    for what in ("running", "waiting", "terminated"):
        yield f"status_{what}", (), what in state
    for what in ("waiting", "terminated"):
        if reason := state.get(what, {}).get("reason"):
            yield f"status_{what}_reason", (reason,), 1
    if started := state.get("running", {}).get("startedAt"):
        yield "state_started", (), seconds(started)
    if last is not None:
        yield "status_last_terminated_reason", (last.get("reason", ""),), 1
        yield "status_last_terminated_exitcode", (), last.get("exitCode", 0)


def _one_of(name: str, values: Sequence[str], current: str) -> Iterator[Sample]:
    """Yield a sample for each value that a label may have: 1 for the current value, 0 for the others."""
    for value in values:
        yield name, (value,), value == current


def seconds(at: str) -> float:
    """Return a timestamp as seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()
