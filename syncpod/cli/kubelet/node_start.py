"""Turns a kubelet's flags and configuration into a node's settings, and lists the values that cannot be followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncpod.cli.kubelet.doors import HEALTHZ_ADDRESS, HEALTHZ_PORT
from syncpod.cli.kubelet.fields import BY_FLAG, FIELDS, is_true_for, is_unset
from syncpod.cli.kubelet.reading import Given, KubeletInputInvalid
from syncpod.fleet.taints import TaintsInvalid, parse_taints
from syncpod.go_durations import parse_go_duration
from syncpod.lifecycle.shutdown_order import (
    ShutdownPeriod,
    ShutdownPeriodsInvalid,
    parse_shutdown_periods,
    periods_text,
    two_periods,
)
from syncpod.node.capacity import CapacityInvalid, parse_reserved
from syncpod.settings import table
from syncpod.settings.directories import STATE_DIR

STATE_DIRECTORY: Final = "syncpod"
"""The name of the node's state directory, in the kubelet's root directory."""
_ROOT_DIRECTORY: Final = "/var/lib/kubelet"
_CGROUP: Final = "kubepods"
_MOST_PODS: Final = 110
_PARALLEL_PULLS: Final = 5
"""Maximum number of images pulled at once if serializeImagePulls is false; a kubelet has no limit then."""
_DEBUG_LEVEL: Final = 6
_PODS_API: Final = "PodsAPI"
"""A feature gate, off in a kubelet 1.36, and on from 1.37."""
_RESET: Final = (
    *(table.POD_MAX_PIDS, table.POD_CGROUPS, table.SINGLE_PROCESS_OOM_KILL, table.KUBELET_PORT, table.KUBELET_ADDRESS),
    *(table.ANONYMOUS_AUTH, table.TOKEN_REVIEWS, table.AUTHORIZATION_MODE, table.READ_ONLY_PORT, table.PODS_API),
    *(table.SHUTDOWN_GRACE, table.SERVER_TLS_BOOTSTRAP, table.NODE_LABELS, table.NODE_IP, table.MANIFEST_DIR),
    *(table.ALLOWED_UNSAFE_SYSCTLS,),
)
"""Settings with a kubelet's defaults. Each start sets them all: a kubelet keeps nothing of an earlier start."""
_DEFAULTS: Final[Mapping[str, str]] = {
    table.LOG_DIR.variable: "/var/log/pods",
    **{each.variable: each.default for each in _RESET},
}


@dataclass(frozen=True)
class NodeStart:
    """How a node of ours starts in place of a kubelet."""

    variables: Mapping[str, str]
    """The settings, by environment variable; "" = not set."""
    warnings: tuple[str, ...]
    """A line for each value that the node does not follow, or that lets strangers in."""
    log_level: str
    bootstrap: str = ""
    """The kubeconfig by which the node joins its cluster if it has no certificate; "" = none."""


@dataclass(frozen=True)
class KubeletMachine:
    """Features of the machine that may keep a kubelet from starting."""

    has_swap: bool
    has_cgroup_v1: bool

    @classmethod
    def read(cls, root: Path = Path("/")) -> KubeletMachine:
        """Return the features of this machine. Raises OSError."""
        swaps = (root / "proc/swaps").read_text().splitlines()[1:]
        return cls(bool(swaps), not (root / "sys/fs/cgroup/cgroup.controllers").exists())


def node_start(given: Given, machine: KubeletMachine) -> NodeStart:
    """Return how to start the node. Raises KubeletInputInvalid with a line for each refused value."""
    problems = list(_machines(given, machine))
    warnings: list[str] = []
    variables = dict(_DEFAULTS)
    for row in FIELDS:
        name = row.path or f"--{row.flag}"
        value = given.of(name)
        if row.derived or value is None:
            continue
        if row.variable and not is_unset(row, value):
            variables[row.variable] = _text(value)
            if row.opens and not is_true_for(row, value):
                warnings.append(f"{given.names[name]}: {_text(value)}: {row.opens}")
        elif not row.variable and not is_true_for(row, value):
            sentence = f"{given.names[name]}: {_text(value)}: {row.refused or row.warned}"
            (problems if row.refused else warnings).append(sentence)
    problems += _derived(given, variables)
    warnings += _gates(given, variables)
    if problems:
        raise KubeletInputInvalid("\n".join(problems))
    level = "debug" if str(given.of("--v", "0")).isdecimal() and int(given.of("--v", "0")) >= _DEBUG_LEVEL else "info"
    return NodeStart(variables, tuple(warnings), level, str(given.of("--bootstrap-kubeconfig", "")))


def _machines(given: Given, machine: KubeletMachine) -> Iterator[str]:
    """Yield the reasons why a kubelet would not start on this machine."""
    if given.of("failSwapOn", True) and machine.has_swap:
        yield "failSwapOn: this machine has swap: turn it off, or set failSwapOn to false"
    if given.of("failCgroupV1") and machine.has_cgroup_v1:
        yield "failCgroupV1: this machine has cgroup v1"
    if given.of("singleProcessOOMKill", True) is False and machine.has_cgroup_v1:
        yield "singleProcessOOMKill: must not be false on cgroup v1, whose kernel always kills a single process"


def _derived(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the variables of derived fields; yield a line for each mistake."""
    root = str(given.of("--root-dir", _ROOT_DIRECTORY))
    kubeconfig = given.of("--kubeconfig", "")
    bootstrap = given.of("--bootstrap-kubeconfig", "")
    if bootstrap and not kubeconfig:
        yield "--bootstrap-kubeconfig: needs --kubeconfig, which is where the node's own is written"
    absolute = (("--root-dir", root), ("--kubeconfig", kubeconfig), ("--bootstrap-kubeconfig", bootstrap))
    for name, path in absolute:
        if path and not Path(path).is_absolute():
            yield f"{name}: must be an absolute path, not {path!r}"
    variables[STATE_DIR] = str(Path(root, STATE_DIRECTORY))
    variables[table.KUBECONFIG.variable] = kubeconfig
    most = given.of("maxPods", _MOST_PODS)
    if most < 0:
        yield f"maxPods: must not be negative, not {most}"
    variables[table.CAPACITY.variable] = f"pods={most}"
    cgroup = given.of("cgroupRoot", "").strip("/")
    variables[table.CGROUP_PARENT.variable] = f"{cgroup}/{_CGROUP}" if cgroup else _CGROUP
    yield from _taints(given, variables)
    yield from _pulls(given, variables)
    yield from _healthz(given, variables)
    yield from _log_format(given, variables)
    _thresholds(given, variables)
    yield from _reserved(given, variables)
    yield from _shutdown(given, variables)
    images, runtime = given.of("imageServiceEndpoint", ""), variables.get(table.RUNTIME_ENDPOINT.variable, "")
    if images and images != runtime:
        yield f"imageServiceEndpoint: must be {runtime or 'absent'}: one socket serves containers and images"


def _taints(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the taints of a new Node. They are texts in a flag, and objects in a file."""
    texts: list[str] = []
    for position, each in enumerate(given.of("registerWithTaints", [])):
        if isinstance(each, dict) and set(each) <= {"key", "value", "effect", "timeAdded"} and "key" in each:
            each = f"{each['key']}={each.get('value', '')}:{each.get('effect', '')}"
        if not isinstance(each, str):
            yield f"registerWithTaints[{position}]: must have key, value and effect"
            continue
        texts.append(each)
    variables[table.REGISTER_WITH_TAINTS.variable] = ",".join(texts)
    try:
        parse_taints(variables[table.REGISTER_WITH_TAINTS.variable])
    except TaintsInvalid as wrong:
        yield f"registerWithTaints: {wrong}"


def _pulls(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set how many images are pulled at once."""
    serial, most = given.of("serializeImagePulls"), given.of("maxParallelImagePulls")
    if serial and most not in (None, 1):
        yield "maxParallelImagePulls: must be 1 while serializeImagePulls is true"
    if most is not None and most < 1:
        yield f"maxParallelImagePulls: must be at least 1, not {most}"
    usual = _PARALLEL_PULLS if serial is False else 1
    variables[table.MAX_PARALLEL_IMAGE_PULLS.variable] = str(usual if most is None else most)


def _gates(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the one feature gate that a node of ours has, PodsAPI; yield a warning for every other gate."""
    for name, value in given.of("featureGates", {}).items():
        if name == _PODS_API:
            variables[table.PODS_API.variable] = str(str(value).lower() == "true").lower()
        else:
            yield f"featureGates.{name}: a node of ours has no such switch"


def _healthz(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the address at which health is served."""
    port = given.of("healthzPort", HEALTHZ_PORT)
    if not 0 <= port <= 65535:
        yield f"healthzPort: must be a port, or 0 for none, not {port}"
    host = given.of("healthzBindAddress", HEALTHZ_ADDRESS)
    variables[table.METRICS_ADDRESS.variable] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        variables[table.METRICS_ADDRESS.variable] = ""


def _log_format(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the format of the log; the field's other options are ignored."""
    chosen = given.of("--logging-format", given.of("logging", {}).get("format", "text"))
    if chosen not in ("text", "json"):
        yield f"logging.format: must be text or json, not {chosen!r}"
    variables[table.LOG_FORMAT.variable] = str(chosen)


def _thresholds(given: Given, variables: dict[str, str]) -> None:
    """Set the eviction thresholds.

    Given hard thresholds replace all defaults; with mergeDefaultEvictionSettings, each replaces only its own default.
    """
    for variable, path in (
        (table.EVICTION_HARD.variable, "evictionHard"),
        (table.EVICTION_SOFT.variable, "evictionSoft"),
    ):
        value: Mapping[str, Any] = given.of(path, {})
        entries = [f"{signal}<{threshold}" for signal, threshold in value.items()]
        if variable == table.EVICTION_HARD.variable and value and not given.of("mergeDefaultEvictionSettings", False):
            entries += [f"{signal}<0%" for signal in _SIGNALS if signal not in value]
        variables[variable] = ",".join(entries)


def _reserved(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set the sum of the two reservations, as a kubelet does (cm/node_container_manager_linux.go, v1.36)."""
    total: Counter[str] = Counter()
    for path in ("systemReserved", "kubeReserved"):
        value: Mapping[str, Any] = given.of(path, {})
        try:
            total.update(parse_reserved(",".join(f"{name}={amount}" for name, amount in value.items())))
        except CapacityInvalid as wrong:
            yield f"{path}: {wrong}"
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in total.items()}
    variables[table.RESERVED.variable] = ",".join(f"{name}={amount}" for name, amount in amounts.items())


def _shutdown(given: Given, variables: dict[str, str]) -> Iterator[str]:
    """Set how long a shutdown waits for pods (apis/config/validation/validation.go, v1.36)."""
    total = parse_go_duration(str(given.of("shutdownGracePeriod", "0s")))
    critical = parse_go_duration(str(given.of("shutdownGracePeriodCriticalPods", "0s")))
    for path, value in (("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)):
        if 0 < value < _SECOND:
            yield f"{path}: must be 0, or at least 1s"
    if critical > total:
        yield "shutdownGracePeriodCriticalPods: must not be more than shutdownGracePeriod"
        return
    by_priority = _by_priority(given)
    if isinstance(by_priority, str):
        yield by_priority
        return
    if by_priority and total:
        yield "shutdownGracePeriodByPodPriority: must be absent while shutdownGracePeriod is given"
    variables[table.SHUTDOWN_GRACE.variable] = periods_text(sorted(by_priority) or two_periods(total, critical))
    try:
        parse_shutdown_periods(variables[table.SHUTDOWN_GRACE.variable])
    except ShutdownPeriodsInvalid as wrong:
        yield f"{'shutdownGracePeriodByPodPriority' if by_priority else 'shutdownGracePeriod'}: {wrong}"


def _by_priority(given: Given) -> list[ShutdownPeriod] | str:
    """Return the periods of shutdownGracePeriodByPodPriority, or the mistake in the field."""
    path, found = "shutdownGracePeriodByPodPriority", list[ShutdownPeriod]()
    for position, each in enumerate(given.of(path, [])):
        if not isinstance(each, dict) or set(each) - set(_PERIOD):
            return f"{path}[{position}]: must have {' and '.join(_PERIOD)}"
        numbers = [each.get(name, 0) for name in _PERIOD]
        if any(type(number) is not int for number in numbers):
            return f"{path}[{position}]: {' and '.join(_PERIOD)} must be whole numbers"
        found.append(ShutdownPeriod(*numbers))
    return found


_PERIOD: Final = ("priority", "shutdownGracePeriodSeconds")
_SECOND: Final = 10**9
_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)
"""The eviction signals that have a default threshold."""


def _text(value: Any) -> str:
    """Return a value as the text of its environment variable."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def flags() -> tuple[str, ...]:
    """Return all flags, for the help."""
    return tuple(sorted(BY_FLAG))
