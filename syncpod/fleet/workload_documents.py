"""Workload documents: apps/v1 Deployment and DaemonSet, and v1 Pod, read strictly, defaulted and validated.

Mirrors pkg/apis/apps/v1/defaults.go and pkg/apis/apps/validation/validation.go, v1.36. An unsupported field is refused
by its path. `revisionHistoryLimit` is the number of earlier templates that are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field
from typing_extensions import override

from syncpod.fleet.pod_names import LARGEST_NUMBER
from syncpod.fleet.selectors import selects
from syncpod.fleet.sizes import SizeOrPercent, check_size
from syncpod.fleet.when_lost import WHEN_LOST, WhenLost, when_lost
from syncpod.fleet.workload_traits import KINDS, one_of
from syncpod.pod import LabelSelector, ObjectMeta, Pod, PodInvalid, PodSpec, Problem, admit, readmit
from syncpod.pod.admission import without_cluster
from syncpod.pod.parse import parse_with_template
from syncpod.pod.support import is_of_placement
from syncpod.pod.validation.metadata import check_object_metadata, check_selector
from syncpod.pod.wire import EMPTY_IS_UNSET, Flag, Int32, IntOrString, Model

MOST_REPLICAS: Final = 2_000
"""The most replicas. Twice as many pods fit into the workload's snapshot, so all can be replaced at once."""

NO_DEADLINE: Final = 2**31 - 1
"""The value of `progressDeadlineSeconds` that means no deadline."""

_NOT_MATCHED: Final = "`selector` does not match template `labels`"
RESTARTED_AT: Final = "syncpod.dev/fleet-restarted-at"
"""The annotation by which ``rollout restart`` makes a new template of the old one; kubectl uses a key of its own."""


class PodTemplate(Model):
    """The template that all pods of a workload are made from."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)


class RollingUpdateDeployment(Model):
    """How many pods a rollout may have above and below its number of replicas."""

    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class DeploymentStrategy(Model):
    """How pods are replaced by those of a new template."""

    type: Annotated[Literal["RollingUpdate", "Recreate"] | None, EMPTY_IS_UNSET] = None
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Model):
    """The number of pods, their template, and how they are replaced."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)
    strategy: DeploymentStrategy = Field(default_factory=DeploymentStrategy)
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    paused: Flag = False
    progress_deadline_seconds: Int32 | None = None


class Deployment(Model):
    """A number of identical pods."""

    api_version: Literal["apps/v1"]
    kind: Literal["Deployment"]
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: DeploymentSpec = Field(default_factory=DeploymentSpec)
    status: dict[str, Any] = Field(default_factory=dict)


class RollingUpdateDaemonSet(Model):
    """On how many nodes a rollout may have no available pod, or an additional one."""

    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


class DaemonSetUpdateStrategy(Model):
    """How pods are replaced by those of a new template."""

    type: Annotated[Literal["RollingUpdate", "OnDelete"] | None, EMPTY_IS_UNSET] = None
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Model):
    """The template of the pod on each node, and how pods are replaced."""

    selector: LabelSelector | None = None
    template: PodTemplate = Field(default_factory=PodTemplate)
    update_strategy: DaemonSetUpdateStrategy = Field(default_factory=DaemonSetUpdateStrategy)
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None


class DaemonSet(Model):
    """One pod on every eligible node."""

    api_version: Literal["apps/v1"]
    kind: Literal["DaemonSet"]
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: DaemonSetSpec = Field(default_factory=DaemonSetSpec)
    status: dict[str, Any] = Field(default_factory=dict)


_Grouped = Deployment | DaemonSet
Workload = Deployment | DaemonSet | Pod
"""The work of a fleet: a number of identical pods, one pod on each node, or a single Pod."""


class AdmittedWorkload(NamedTuple):
    """A workload with all defaults, including those of its template, and warnings for its author."""

    workload: Workload
    warnings: tuple[Problem, ...]


def admit_workload(document: Any) -> AdmittedWorkload:
    """Admit the document of a Deployment, a DaemonSet or a Pod. Idempotent.

    The output of ``kubectl get -o yaml`` is accepted too: fields that an API server filled in are dropped, with a
    warning. Raises PodInvalid with every field that is wrong, unknown or not supported, each by its path.
    """
    kind = str(document.get("kind")) if isinstance(document, Mapping) else ""
    if kind not in KINDS:
        raise PodInvalid([Problem("kind", f"must be {one_of(tuple(KINDS))}")])
    return _READERS[kind].admit(document)


def _admit_templated(reader: _TemplatedReader, document: Mapping[str, Any]) -> AdmittedWorkload:
    workload, warnings = _without_cluster(reader.with_defaults(parse_with_template(reader.model, document)))
    problems = [*_check(workload), *reader.check(workload.spec)]
    template = workload.spec.template
    try:
        admitted = admit(_example(workload))
    except PodInvalid as error:
        problems += [_in_template(problem) for problem in error.problems]
        raise PodInvalid(problems) from None
    if problems:
        raise PodInvalid(problems)
    warnings += [_in_template(warning) for warning in admitted.warnings if not is_of_placement(warning)]
    metadata = template.metadata.model_copy(
        update={"labels": admitted.pod.metadata.labels, "annotations": admitted.pod.metadata.annotations}
    )
    filled = template.model_copy(update={"metadata": metadata, "spec": admitted.pod.spec})
    spec = workload.spec.model_copy(update={"template": filled})
    return AdmittedWorkload(workload.model_copy(update={"spec": spec}), tuple(warnings))


def _admit_pod(document: Mapping[str, Any]) -> AdmittedWorkload:
    """Admit a Pod as a node does, and check the annotation that only a fleet reads.

    If the fleet places the Pod, there are no warnings about fields for its placement. A Pod with a `nodeName` gets
    them.
    """
    admitted = admit(document)
    path = f"metadata.annotations[{WHEN_LOST}]"
    if problems := list(_check_when_lost(admitted.pod.metadata.annotations, path, "Pod")):
        raise PodInvalid(problems)
    is_placed = not admitted.pod.spec.node_name
    warnings = tuple(each for each in admitted.warnings if not (is_placed and is_of_placement(each)))
    return AdmittedWorkload(admitted.pod, warnings)


def template_of(workload: Workload) -> PodTemplate:
    """Return the template of the workload's pods. For a Pod that is the Pod itself, without its name."""
    return _READERS[workload.kind].template(workload)


def readmit_workload(document: Mapping[str, Any]) -> Workload:
    """Read a workload that has already been admitted, perhaps by an earlier version with other rules."""
    return _READERS[str(document.get("kind"))].readmit(document)


def lost_rule(workload: Workload) -> WhenLost:
    """Return the rule for the workload's pods on a lost node: from its own annotation, or from that of its template."""
    annotations = workload.metadata.annotations
    return when_lost(annotations if WHEN_LOST in annotations else template_of(workload).metadata.annotations)


def _with_deployment_defaults(deployment: Deployment) -> Deployment:
    spec, strategy = deployment.spec, deployment.spec.strategy
    rolling = strategy.rolling_update or RollingUpdateDeployment()
    if (strategy.type or "RollingUpdate") == "RollingUpdate":
        strategy = DeploymentStrategy(
            type="RollingUpdate",
            rolling_update=RollingUpdateDeployment(
                max_surge=_or_default(rolling.max_surge, "25%"),
                max_unavailable=_or_default(rolling.max_unavailable, "25%"),
            ),
        )
    filled = {
        "replicas": 1 if spec.replicas is None else spec.replicas,
        "strategy": strategy,
        "revision_history_limit": 10 if spec.revision_history_limit is None else spec.revision_history_limit,
        "progress_deadline_seconds": 600 if spec.progress_deadline_seconds is None else spec.progress_deadline_seconds,
    }
    return deployment.model_copy(update={"spec": spec.model_copy(update=filled)})


def _with_daemon_defaults(daemons: DaemonSet) -> DaemonSet:
    spec, strategy = daemons.spec, daemons.spec.update_strategy
    rolling = strategy.rolling_update or RollingUpdateDaemonSet()
    if (strategy.type or "RollingUpdate") == "RollingUpdate":
        strategy = DaemonSetUpdateStrategy(
            type="RollingUpdate",
            rolling_update=RollingUpdateDaemonSet(
                max_surge=_or_default(rolling.max_surge, 0), max_unavailable=_or_default(rolling.max_unavailable, 1)
            ),
        )
    filled = {
        "update_strategy": strategy,
        "revision_history_limit": 10 if spec.revision_history_limit is None else spec.revision_history_limit,
    }
    return daemons.model_copy(update={"spec": spec.model_copy(update=filled)})


def _or_default(value: SizeOrPercent | None, default: SizeOrPercent) -> SizeOrPercent:
    return default if value is None else value


def _without_cluster(workload: _Grouped) -> tuple[_Grouped, list[Problem]]:
    """Return the workload without fields that an API server wrote, and without names in its template."""
    pod, warnings = without_cluster(Pod(metadata=workload.metadata))
    if workload.status:
        warnings.append(Problem("status", "dropped: it describes the workload in another cluster"))
    own = workload.spec.template.metadata
    for name, value in (("name", own.name), ("generateName", own.generate_name), ("namespace", own.namespace)):
        if value:
            warnings.append(Problem(f"spec.template.metadata.{name}", "dropped: pods are named by their workload"))
    nameless = own.model_copy(update={"name": "", "generate_name": "", "namespace": ""})
    spec = workload.spec.model_copy(
        update={"template": workload.spec.template.model_copy(update={"metadata": nameless})}
    )
    return workload.model_copy(update={"metadata": pod.metadata, "spec": spec, "status": {}}), warnings


def _example(workload: _Grouped) -> Pod:
    """Return a pod of the template, with the longest name that a pod of it may get."""
    template, named = workload.spec.template, {"name": "example", "namespace": ""}
    if not any(check_object_metadata(workload.metadata, "")):
        longest = KINDS[workload.kind].names.name(workload.metadata.name, LARGEST_NUMBER)
        named = {"name": longest, "namespace": workload.metadata.namespace}
    return Pod(metadata=template.metadata.model_copy(update=named), spec=template.spec)


def _in_template(problem: Problem) -> Problem:
    if problem.path == "metadata.name":
        return Problem(problem.path, f"with a pod's number appended, {problem.message}")
    where = problem.path.removeprefix("pod")
    return Problem(f"spec.template.{where}" if where else "spec.template", problem.message)


def _check(workload: _Grouped) -> Iterator[Problem]:
    yield from check_object_metadata(workload.metadata, "metadata")
    for path, found in (
        ("metadata", workload.metadata.annotations),
        ("spec.template.metadata", workload.spec.template.metadata.annotations),
    ):
        yield from _check_when_lost(found, f"{path}.annotations[{WHEN_LOST}]", workload.kind)
    spec = workload.spec
    yield from _check_selector(spec.selector, spec.template, workload.kind)
    for name, value in (
        ("minReadySeconds", spec.min_ready_seconds),
        ("revisionHistoryLimit", spec.revision_history_limit),
    ):
        if value is not None and value < 0:
            yield Problem(f"spec.{name}", "must not be negative")
    pods = spec.template.spec
    if pods.restart_policy not in (None, "Always"):
        yield Problem("spec.template.spec.restartPolicy", "must be Always")
    if pods.active_deadline_seconds is not None:
        yield Problem("spec.template.spec.activeDeadlineSeconds", f"must not be set in a {workload.kind}")


def _check_when_lost(annotations: Mapping[str, str], path: str, kind: str) -> Iterator[Problem]:
    try:
        rule = when_lost(annotations)
    except ValueError as wrong:
        yield Problem(path, str(wrong))
        return
    traits = KINDS[kind]
    if rule.action not in traits.lost_rules:
        rules = one_of(tuple(each if each == "wait" else f"{each}=DURATION" for each in traits.lost_rules))
        yield Problem(path, f"must be {rules} in a {kind}, {traits.lost_why}")


def _check_selector(selector: LabelSelector | None, template: PodTemplate, kind: str) -> Iterator[Problem]:
    if selector is None:
        yield Problem("spec.selector", "required")
        return
    yield from check_selector(selector, "spec.selector")
    if not (selector.match_labels or selector.match_expressions):
        yield Problem("spec.selector", f"empty selector is invalid for {kind.lower()}")
    elif not selects(selector, template.metadata.labels):
        yield Problem("spec.template.metadata.labels", _NOT_MATCHED)


def _check_deployment(spec: DeploymentSpec) -> Iterator[Problem]:
    if spec.replicas is not None and spec.replicas < 0:
        yield Problem("spec.replicas", "must not be negative")
    elif spec.replicas is not None and spec.replicas > MOST_REPLICAS:
        yield Problem("spec.replicas", f"must be no more than {MOST_REPLICAS}, is {spec.replicas}")
    deadline = spec.progress_deadline_seconds
    if deadline is not None and deadline < 0:
        yield Problem("spec.progressDeadlineSeconds", "must not be negative")
    elif deadline is not None and deadline <= spec.min_ready_seconds:
        yield Problem("spec.progressDeadlineSeconds", "must be greater than minReadySeconds")
    rolling, path = spec.strategy.rolling_update, "spec.strategy.rollingUpdate"
    if spec.strategy.type == "Recreate":
        if rolling is not None:
            yield Problem(path, "may not be specified when strategy `type` is 'Recreate'")
        return
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
    problems = [*_check_sizes(surge, unavailable, path)]
    yield from problems
    if not problems and _is_none(surge) and _is_none(unavailable):
        yield Problem(f"{path}.maxUnavailable", "may not be 0 when `maxSurge` is 0")


def _check_daemons(spec: DaemonSetSpec) -> Iterator[Problem]:
    rolling, path = spec.update_strategy.rolling_update, "spec.updateStrategy.rollingUpdate"
    if spec.update_strategy.type == "OnDelete":
        yield Problem("spec.updateStrategy.type", "not supported yet: OnDelete; must be RollingUpdate")
        return
    surge, unavailable = (rolling.max_surge, rolling.max_unavailable) if rolling is not None else (None, None)
    problems = [*_check_sizes(surge, unavailable, path, surge_at_most_all=True)]
    yield from problems
    if problems:
        return
    if not _is_none(surge) and not _is_none(unavailable):
        yield Problem(f"{path}.maxSurge", "may not be set when maxUnavailable is non-zero")
    elif _is_none(surge) and _is_none(unavailable):
        yield Problem(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _check_sizes(
    surge: SizeOrPercent | None, unavailable: SizeOrPercent | None, path: str, *, surge_at_most_all: bool = False
) -> Iterator[Problem]:
    for name, value, at_most_all in (
        ("maxUnavailable", unavailable, True),
        ("maxSurge", surge, surge_at_most_all),
    ):
        if value is not None and (wrong := check_size(value, at_most_all=at_most_all)):
            yield Problem(f"{path}.{name}", wrong)


def _is_none(size: SizeOrPercent | None) -> bool:
    return size in (None, 0, "0%")


class _Reader(ABC):
    """Reads the documents of one kind of workload."""

    @abstractmethod
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload:
        """Admit a document as a person wrote it. Raises PodInvalid."""

    @abstractmethod
    def readmit(self, document: Mapping[str, Any]) -> Workload:
        """Read a document that has been admitted."""

    @abstractmethod
    def template(self, workload: Any) -> PodTemplate:
        """Return the template of the workload's pods."""


@dataclass(frozen=True)
class _TemplatedReader(_Reader):
    """Reads the documents of a kind that has a template."""

    model: Any
    """Its model, a subclass of `Model`."""
    with_defaults: Callable[[Any], _Grouped]
    check: Callable[[Any], Iterator[Problem]]
    """Yields the mistakes in its spec, apart from the part that all kinds have."""

    @override
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload:
        return _admit_templated(self, document)

    @override
    def readmit(self, document: Mapping[str, Any]) -> Workload:
        workload: Workload = self.model.model_validate(document)
        return workload

    @override
    def template(self, workload: _Grouped) -> PodTemplate:
        return workload.spec.template


class _PodReader(_Reader):
    """Reads a Pod, which is its own template."""

    @override
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload:
        return _admit_pod(document)

    @override
    def readmit(self, document: Mapping[str, Any]) -> Workload:
        return readmit(document).pod

    @override
    def template(self, workload: Pod) -> PodTemplate:
        metadata = workload.metadata.model_copy(update={"name": "", "namespace": ""})
        return PodTemplate(metadata=metadata, spec=workload.spec)


_READERS: Final[Mapping[str, _Reader]] = {
    "Deployment": _TemplatedReader(Deployment, _with_deployment_defaults, _check_deployment),
    "DaemonSet": _TemplatedReader(DaemonSet, _with_daemon_defaults, _check_daemons),
    "Pod": _PodReader(),
}
