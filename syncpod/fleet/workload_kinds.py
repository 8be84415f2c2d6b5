"""One kind of workload as an object: it reads documents, makes pods and decides.

:class:`TemplatedKind` reads the documents and makes the pods of all kinds with a template. The module of a kind, such
as `syncpod.fleet.deployments`, has the rest; `syncpod.fleet.workloads` has the table of all kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

from typing_extensions import override

from syncpod.fleet.members import Member
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.pod_names import LARGEST_NUMBER
from syncpod.fleet.presence import written_off_at
from syncpod.fleet.rollout import Counts, RolloutState, WorkloadDecision
from syncpod.fleet.selectors import selects
from syncpod.fleet.when_lost import WHEN_LOST, WhenLost, when_lost
from syncpod.fleet.workload_documents import (
    AdmittedWorkload,
    Document,
    PodTemplate,
    TemplatedDocument,
    check_when_lost,
)
from syncpod.fleet.workload_pods import grace_of, revision_of
from syncpod.fleet.workload_traits import Traits
from syncpod.pod import Pod, PodInvalid, Problem, admit
from syncpod.pod.admission import without_cluster
from syncpod.pod.parse import parse_with_template
from syncpod.pod.support import is_of_placement
from syncpod.pod.validation.metadata import check_object_metadata, check_selector

_NOT_MATCHED: Final = "`selector` does not match template `labels`"


@dataclass(frozen=True)
class Situation:
    """The input of a workload's decision, apart from its document."""

    members: Sequence[Member]
    rollout: RolloutState
    numbered: int = 0
    """The number of the newest pod."""
    is_paused: bool = False
    nodes: Sequence[NodeOffer] | None = None
    """The nodes of the last survey; None = there was none."""
    unread: Collection[str] = ()
    """The nodes that the last survey could not read. For these, `nodes` has the result of an earlier survey of this
    run."""
    counts: Counts = field(default_factory=Counts)
    """The numbers of the last decision, even if an earlier run made it."""
    is_placed: bool = False
    """Whether a node has been chosen for one of its pods."""


class WorkloadKind(ABC, Generic[Document]):
    """One kind of workload."""

    traits: ClassVar[Traits]

    @abstractmethod
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload[Document]:
        """Admit a document as a person wrote it. Raises PodInvalid."""

    @abstractmethod
    def readmit(self, document: Mapping[str, Any]) -> Document:
        """Read a document that has already been admitted, perhaps by an earlier version with other rules."""

    @abstractmethod
    def template(self, workload: Document) -> PodTemplate:
        """Return the template of the workload's pods."""

    @abstractmethod
    def pod(self, workload: Document, template: PodTemplate, number: int) -> Pod:
        """Return the workload's pod with this number, made from the given template, which may be an earlier one."""

    @abstractmethod
    def decide(self, workload: Document, at: Situation, now: datetime) -> WorkloadDecision:
        """Decide what the workload does next."""

    @abstractmethod
    def fixed(self, before: Document, after: Document, at: Situation) -> str:
        """Return why the document `after` must not replace `before`; "" if it may."""

    @abstractmethod
    def desired(self, workload: Document, decided: int | None) -> int:
        """Return how many pods the workload shall have. `decided` is its last decision's count; None = none yet."""

    def free_numbers(self, at: Situation) -> Iterator[int]:
        """Yield the numbers that the next pods may have (:meth:`PodNames.free_numbers`)."""
        return self.traits.names.free_numbers(at.numbered, {member.number for member in at.members})

    def lost_rule(self, workload: Document) -> WhenLost:
        """Return the rule for the workload's pods on a lost node: from its own annotation, or that of its template."""
        annotations = workload.metadata.annotations
        return when_lost(annotations if WHEN_LOST in annotations else self.template(workload).metadata.annotations)

    def replaced_at(self, workload: Document, member: Member) -> datetime | None:
        """Return when a pod on a lost node may be replaced elsewhere; None if never, or if its node is not lost."""
        return written_off_at(member, self.lost_rule(workload), grace_of(self.template(workload)))


Templated = TypeVar("Templated", bound=TemplatedDocument)


class TemplatedKind(WorkloadKind[Templated]):
    """A kind whose pods are made from a template.

    Mirrors pkg/apis/apps/validation/validation.go, v1.36, and pkg/controller/controller_utils.go, GetPodFromTemplate.
    An unsupported field is refused by its path. `revisionHistoryLimit` is the number of earlier templates that are
    kept. Difference: pods are numbered, as in ``web-7``, so that their names show which pod was made later.
    """

    model: ClassVar[Any]
    """The model of its documents, a subclass of `Model`."""

    @abstractmethod
    def with_defaults(self, workload: Templated) -> Templated:
        """Return the workload with the defaults of its spec, apart from those of its template."""

    @abstractmethod
    def check(self, workload: Templated) -> Iterator[Problem]:
        """Yield the mistakes in its spec, apart from the part that all kinds have."""

    @override
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload[Templated]:
        workload, warnings = _without_cluster(self.with_defaults(parse_with_template(self.model, document)))
        problems = [*self._check_common(workload), *self.check(workload)]
        template = workload.spec.template
        try:
            admitted = admit(self._example(workload))
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

    @override
    def readmit(self, document: Mapping[str, Any]) -> Templated:
        workload: Templated = self.model.model_validate(document)
        return workload

    @override
    def template(self, workload: Templated) -> PodTemplate:
        return workload.spec.template

    @override
    def pod(self, workload: Templated, template: PodTemplate, number: int) -> Pod:
        annotations, rule = template.metadata.annotations, self.lost_rule(workload)
        if rule != WhenLost():
            annotations = {**annotations, WHEN_LOST: str(rule)}
        metadata = template.metadata.model_copy(
            update={
                "name": self.traits.names.name(workload.metadata.name, number),
                "namespace": workload.metadata.namespace or "default",
                "labels": {**template.metadata.labels, self.traits.revision_label: revision_of(template)},
                "annotations": annotations,
            }
        )
        return Pod(metadata=metadata, spec=template.spec)

    @override
    def fixed(self, before: Templated, after: Templated, at: Situation) -> str:
        changed = before.spec.selector != after.spec.selector
        return "spec.selector: must not be changed; delete the workload, and apply it again" if changed else ""

    def _example(self, workload: Templated) -> Pod:
        """Return a pod of the template, with the longest name that such a pod may get."""
        template, named = workload.spec.template, {"name": "example", "namespace": ""}
        if not any(check_object_metadata(workload.metadata, "")):
            longest = self.traits.names.name(workload.metadata.name, LARGEST_NUMBER)
            named = {"name": longest, "namespace": workload.metadata.namespace}
        return Pod(metadata=template.metadata.model_copy(update=named), spec=template.spec)

    def _check_common(self, workload: Templated) -> Iterator[Problem]:
        spec, kind = workload.spec, self.traits.name
        yield from check_object_metadata(workload.metadata, "metadata")
        yield from check_when_lost(workload.metadata.annotations, "metadata", self.traits)
        yield from check_when_lost(spec.template.metadata.annotations, "spec.template.metadata", self.traits)
        yield from self._check_selector(workload)
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
            yield Problem("spec.template.spec.activeDeadlineSeconds", f"must not be set in a {kind}")

    def _check_selector(self, workload: Templated) -> Iterator[Problem]:
        selector = workload.spec.selector
        if selector is None:
            yield Problem("spec.selector", "required")
            return
        yield from check_selector(selector, "spec.selector")
        if not (selector.match_labels or selector.match_expressions):
            yield Problem("spec.selector", f"empty selector is invalid for {self.traits.name.lower()}")
        elif not selects(selector, workload.spec.template.metadata.labels):
            yield Problem("spec.template.metadata.labels", _NOT_MATCHED)


def _without_cluster(workload: Templated) -> tuple[Templated, list[Problem]]:
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


def _in_template(problem: Problem) -> Problem:
    if problem.path == "metadata.name":
        return Problem(problem.path, f"with a pod's number appended, {problem.message}")
    where = problem.path.removeprefix("pod")
    return Problem(f"spec.template.{where}" if where else "spec.template", problem.message)
