"""The output of ``describe pod``: the pod in the layout of `kubectl describe`, then the state of its workflow.

Pure. Values of Secrets never appear here: a pod only refers to Secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from syncpod.api.listed import RECORDED_ANNOTATION
from syncpod.api.views.durations import age, moment_text, short_duration
from syncpod.api.views.layout import NONE, mapping, pairs
from syncpod.api.views.text import align
from syncpod.api.views.volume_description import volume_lines
from syncpod.go_durations import go_duration
from syncpod.journal.records import EventRecord
from syncpod.messages.running_steps import PendingStep
from syncpod.node.orphan_mark import ANNOTATION as ORPHANED
from syncpod.pod import Container, ContainerState, ContainerStatus, EnvVar, EphemeralContainer, Pod, Probe, VolumeMount
from syncpod.pod.restart_settings import RestartSettings, has_restart_settings, restart_settings

_UNKNOWN: Final = "<unknown>"


@dataclass(frozen=True)
class HoldLine:
    """A container or a step that waits for a back-off."""

    subject: str
    reason: str
    until: datetime | None
    """When the wait ends; None = only an operator can end it."""


@dataclass(frozen=True)
class Facts:
    """The facts about a pod's workflow that its Pod does not have."""

    workflow_id: str
    run_id: str
    ui: str
    """URL of its page; "" = not known."""
    events: tuple[EventRecord, ...] | None = ()
    """The pod's events; None = not known, since the workflow did not answer."""
    pending: tuple[PendingStep, ...] = ()
    holds: tuple[HoldLine, ...] = ()


def describe(pod: Pod, facts: Facts, now: datetime) -> list[str]:
    """Return the lines."""
    lines = list(pairs(_head(pod, now)))
    spec, status = pod.spec, pod.status
    lines += _containers("Init Containers", spec.init_containers, status.init_container_statuses)
    lines += _containers("Containers", spec.containers, status.container_statuses)
    lines += _containers("Ephemeral Containers", spec.ephemeral_containers, status.ephemeral_container_statuses)
    lines += _conditions(pod)
    lines += volume_lines(spec.volumes)
    lines += pairs(_tail(pod))
    lines += _workflow(facts, now)
    lines += _events(facts.events, now, "Events" if not _silence(pod) else "Events, as last reported")
    return lines


def describe_recorded(pod: Pod, facts: Facts, now: datetime) -> list[str]:
    """Return the lines of a pod whose workflow did not answer: only the Temporal server's last record."""
    return [*pairs(_recorded(pod)), *_workflow(facts, now), *_events(None, now)]


# --- the pod ----------------------------------------------------------------------------------------------------------


def _recorded(pod: Pod) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the lines that can be made from a pod's search attributes."""
    meta = pod.metadata
    yield "Name", [meta.name]
    yield "Namespace", [meta.namespace]
    yield "UID", [meta.uid or _UNKNOWN]
    yield "Node", [pod.spec.node_name or _UNKNOWN]
    yield "Labels", mapping(meta.labels)
    yield "Status", [f"{pod.status.phase or 'Unknown'}? (recorded last; the pod did not answer)"]


def _head(pod: Pod, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    yield "Name", [meta.name]
    yield "Namespace", [meta.namespace]
    yield "UID", [meta.uid]
    yield "Node", ["/".join(part for part in (spec.node_name, status.host_ip) if part) or NONE]
    yield "Start Time", [moment_text(status.start_time)]
    yield "Labels", mapping(meta.labels)
    yield "Annotations", mapping(meta.annotations, ": ")
    if meta.deletion_timestamp is not None:
        yield (
            "Status",
            [f"Terminating (until {moment_text(meta.deletion_timestamp)}, {_until(meta.deletion_timestamp, now)})"],
        )
        yield "Termination Grace Period", [f"{meta.deletion_grace_period_seconds}s"]
    else:
        yield "Status", [_marked(pod, status.phase or "Pending")]
    if status.reason:
        yield "Reason", [status.reason]
    if status.message:
        yield "Message", [status.message]
    yield "IP", [status.pod_ip]
    yield "IPs", [entry.ip for entry in status.pod_ips] or [NONE]
    for owner in meta.owner_references:
        if owner.controller:
            yield "Controlled By", [f"{owner.kind}/{owner.name}"]


def _silence(pod: Pod) -> str:
    """Return why a pod is shown in its last known state, in a clause; "" = the state is current."""
    annotations = pod.metadata.annotations
    if RECORDED_ANNOTATION in annotations:
        return "the pod did not answer"
    return "it has no workflow" if ORPHANED in annotations else ""


def _marked(pod: Pod, word: str) -> str:
    return f"{word}? (last reported; {why})" if (why := _silence(pod)) else word


def _tail(pod: Pod) -> Iterator[tuple[str, Sequence[str]]]:
    spec = pod.spec
    yield "QoS Class", [pod.status.qos_class or "<unknown>"]
    yield "Restart Policy", [spec.restart_policy or "Always"]
    if has_restart_settings(pod.metadata.annotations):
        yield "Restart Back-off", [*_restarts(restart_settings(pod.metadata.annotations))]
    if spec.host_network:
        yield "Host Network", ["true"]
    if spec.active_deadline_seconds is not None:
        yield "Active Deadline Seconds", [str(spec.active_deadline_seconds)]


def _restarts(settings: RestartSettings) -> Iterator[str]:
    """Yield how the pod's restarts are delayed and limited."""
    first, longest, well = (go_duration(span) for span in (settings.initial, settings.maximum, settings.reset_after))
    yield f"{first}, each {settings.factor:g} times the one before, {longest} at most; reset after {well} of running"
    if settings.exempt:
        yield f"none for exit codes {', '.join(map(str, settings.exempt))}"
    if settings.limit is not None:
        then = "held until `syncpod retry`" if settings.action == "hold" else "the pod fails"
        yield f"{settings.limit} restart{'s' if settings.limit != 1 else ''} in a row at most, then {then}"


def _conditions(pod: Pod) -> list[str]:
    if not pod.status.conditions:
        return []
    rows = [["  Type", "Status", "Reason", "Message"]]
    rows += [[f"  {entry.type}", entry.status or "", entry.reason, entry.message] for entry in pod.status.conditions]
    return ["Conditions:", *("  ".join(row).rstrip() for row in align(rows))]


# --- containers -------------------------------------------------------------------------------------------------------


def _containers(title: str, containers: Sequence[Container], statuses: Iterable[ContainerStatus]) -> list[str]:
    if not containers:
        return []
    by_name = {status.name: status for status in statuses}
    lines = [f"{title}:"]
    for container in containers:
        lines.append(f"  {container.name}:")
        lines += pairs(_container(container, by_name.get(container.name)), indent=4)
    return lines


def _container(container: Container, status: ContainerStatus | None) -> Iterator[tuple[str, Sequence[str]]]:
    if status is not None and status.container_id:
        yield "Container ID", [status.container_id]
    yield "Image", [container.image]
    if status is not None and status.image_id:
        yield "Image ID", [status.image_id]
    if isinstance(container, EphemeralContainer) and container.target_container_name:
        yield "Target Container", [container.target_container_name]
    yield from _ports(container)
    if container.command:
        yield "Command", ["", *_arguments(container.command)]
    if container.args:
        yield "Args", ["", *_arguments(container.args)]
    yield from _restart_rules(container)
    if status is not None:
        yield from _instances(status)
    for title, amounts in (("Limits", container.resources.limits), ("Requests", container.resources.requests)):
        if amounts:
            yield title, ["", *(f"{name}:  {amount}" for name, amount in amounts.items())]
    for title, probe in (
        ("Liveness", container.liveness_probe),
        ("Readiness", container.readiness_probe),
        ("Startup", container.startup_probe),
    ):
        if probe is not None:
            yield title, [_probe(probe)]
    yield from _environment(container)
    mounts = [_mount(mount) for mount in container.volume_mounts]
    yield "Mounts", ["", *mounts] if mounts else [NONE]


def _ports(container: Container) -> Iterator[tuple[str, Sequence[str]]]:
    ports = [f"{port.container_port}/{port.protocol or 'TCP'}" for port in container.ports]
    yield ("Ports" if len(ports) > 1 else "Port"), [", ".join(ports) or NONE]
    if any(port.host_port for port in container.ports):
        yield "Host Port", [", ".join(f"{port.host_port or 0}/{port.protocol or 'TCP'}" for port in container.ports)]


def _restart_rules(container: Container) -> Iterator[tuple[str, Sequence[str]]]:
    if container.restart_policy:
        yield "Restart Policy", [container.restart_policy]
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        when = f"{codes.operator} {', '.join(map(str, codes.values))}" if codes else "always"
        yield "Restart Rule", [f"{rule.action} on exit code {when}"]


def _instances(status: ContainerStatus) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the state of the current instance and of the previous one."""
    yield from _state("State", status.state)
    if status.last_state != ContainerState():
        yield from _state("Last State", status.last_state)
    yield "Ready", [str(status.ready)]
    yield "Restart Count", [str(status.restart_count)]


def _mount(mount: VolumeMount) -> str:
    part = mount.sub_path or mount.sub_path_expr
    manner = ("ro" if mount.read_only else "rw") + (f',path="{part}"' if part else "")
    return f"{mount.mount_path} from {mount.name} ({manner})"


def _arguments(words: Sequence[str]) -> list[str]:
    """Return one line for each line of each argument."""
    return [line for word in words for line in word.rstrip("\n").split("\n")]


def _state(title: str, state: ContainerState) -> Iterator[tuple[str, Sequence[str]]]:
    if state.running is not None:
        yield title, ["Running"]
        yield "  Started", [moment_text(state.running.started_at)]
    elif state.terminated is not None:
        ended = state.terminated
        yield title, ["Terminated"]
        if ended.reason:
            yield "  Reason", [ended.reason]
        if ended.message:
            yield "  Message", ended.message.rstrip("\n").split("\n")
        yield "  Exit Code", [str(ended.exit_code)]
        if ended.signal:
            yield "  Signal", [str(ended.signal)]
        yield "  Started", [moment_text(ended.started_at)]
        yield "  Finished", [moment_text(ended.finished_at)]
    else:
        yield title, ["Waiting"]
        if state.waiting is not None and state.waiting.reason:
            yield "  Reason", [state.waiting.reason]
        if state.waiting is not None and state.waiting.message:
            yield "  Message", state.waiting.message.rstrip("\n").split("\n")


def _environment(container: Container) -> Iterator[tuple[str, Sequence[str]]]:
    if container.env_from:
        sources = []
        for source in container.env_from:
            prefix = f"  with prefix '{source.prefix}'" if source.prefix else ""
            for kind, ref in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
                if ref is not None:
                    sources.append(f"{ref.name}  {kind}{prefix}  Optional: {bool(ref.optional)}")
        yield "Environment Variables from", ["", *sources]
    if container.env:
        rows = align([[f"{variable.name}:", _value(variable)] for variable in container.env])
        yield "Environment", ["", *("  ".join(row) for row in rows)]
    else:
        yield "Environment", [NONE]


def _value(variable: EnvVar) -> str:
    source = variable.value_from
    if source is None:
        return variable.value.replace("\n", "\\n")
    if source.field_ref is not None:
        return f"({source.field_ref.api_version or 'v1'}:{source.field_ref.field_path})"
    if source.resource_field_ref is not None:
        return f"({source.resource_field_ref.resource})"
    for kind, ref in (("config map", source.config_map_key_ref), ("secret", source.secret_key_ref)):
        if ref is not None:
            return f"<set to the key '{ref.key}' in {kind} '{ref.name}'>  Optional: {bool(ref.optional)}"
    if source.file_key_ref is not None:
        return f"<set to the key '{source.file_key_ref.key}' in file '{source.file_key_ref.path}'>"
    return ""


def _probe(probe: Probe) -> str:
    if probe.exec is not None:
        what = f"exec [{' '.join(probe.exec.command)}]"
    elif probe.http_get is not None:
        get = probe.http_get
        what = f"http-get {(get.scheme or 'HTTP').lower()}://{get.host}:{get.port}{get.path}"
    elif probe.tcp_socket is not None:
        what = f"tcp-socket {probe.tcp_socket.host}:{probe.tcp_socket.port}"
    elif probe.grpc is not None:
        what = f"grpc <pod>:{probe.grpc.port} {probe.grpc.service or ''}".rstrip()
    else:
        what = "unknown"
    return (
        f"{what} delay={probe.initial_delay_seconds or 0}s timeout={probe.timeout_seconds or 1}s "
        f"period={probe.period_seconds or 10}s #success={probe.success_threshold or 1} "
        f"#failure={probe.failure_threshold or 3}"
    )


# --- the workflow -----------------------------------------------------------------------------------------------------


def _workflow(facts: Facts, now: datetime) -> list[str]:
    rows = [("Workflow ID", [facts.workflow_id]), ("Run ID", [facts.run_id])]
    if facts.ui:
        rows.append(("UI", [facts.ui]))
    lines = ["Workflow:", *pairs(rows, indent=2)]
    if facts.pending:
        lines.append("Pending Steps:")
    for step in facts.pending:
        lines.append(f"  {step.name}: try {step.attempt}{_tried(step.since, now)}")
        if step.doing:
            lines.append(f"    {step.doing}")
        if step.failure:
            lines.append(f"    last failed: {step.failure}")
    if facts.holds:
        lines.append("Waiting For:")
    for hold in facts.holds:
        how_long = _until(hold.until, now) if hold.until is not None else "until `syncpod retry`"
        lines.append(f"  {hold.subject}: {hold.reason}, {how_long}")
    return lines


def _tried(since: datetime | None, now: datetime) -> str:
    """Return how long an attempt has been running, or when it begins."""
    if since is None:
        return ""
    return f", for {short_duration(now - since)}" if since <= now else f" in {short_duration(since - now)}"


def _events(events: Sequence[EventRecord] | None, now: datetime, title: str = "Events") -> list[str]:
    if events is None:
        return [f"Events:  {_UNKNOWN}, the pod did not answer"]
    if not events:
        return [f"Events:  {NONE}"]
    head = ["Type", "Reason", "Age", "Container", "Message"]
    rows = [head, ["-" * len(word) for word in head]]
    for event in events:
        seen = age(event.last, now)
        if event.count > 1:
            seen += f" (x{event.count} over {age(event.first, now)})"
        message = " ".join(event.message.split())
        rows.append([event.type, event.reason, seen, event.container or "-", message])
    return [f"{title}:", *(f"  {'  '.join(row)}".rstrip() for row in align(rows))]


# --- layout -----------------------------------------------------------------------------------------------------------


def _until(at: datetime, now: datetime) -> str:
    left = at - now
    return f"{short_duration(left)} left" if left > timedelta(0) else "now due"
