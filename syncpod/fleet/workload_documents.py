"""The common parts of workload documents: their template, the parts that all kinds have, and checks of their fields.

The document of each kind is in the module of the kind, such as `syncpod.fleet.deployments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from pydantic import Field

from syncpod.fleet.sizes import SizeOrPercent, check_size
from syncpod.fleet.when_lost import WHEN_LOST, when_lost
from syncpod.fleet.workload_traits import Traits, one_of
from syncpod.pod import LabelSelector, ObjectMeta, PodSpec, Problem
from syncpod.pod.wire import Model

RESTARTED_AT: Final = "syncpod.dev/fleet-restarted-at"
"""The annotation by which ``rollout restart`` makes a new template of the old one; kubectl uses a key of its own."""


class PodTemplate(Model):
    """The template that all pods of a workload are made from."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: PodSpec = Field(default_factory=PodSpec)


class WorkloadDocument(Protocol):
    """The document of a workload of any kind."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


class TemplatedSpec(Protocol):
    """The part of a spec that all kinds with a template have."""

    @property
    def selector(self) -> LabelSelector | None:
        """The selector of its pods."""

    @property
    def template(self) -> PodTemplate:
        """The template of its pods."""

    @property
    def min_ready_seconds(self) -> int:
        """How long a pod must be ready before it counts as available."""

    @property
    def revision_history_limit(self) -> int | None:
        """How many earlier templates are kept."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with other values of some fields."""


class TemplatedDocument(WorkloadDocument, Protocol):
    """The document of a workload of a kind with a template."""

    @property
    def spec(self) -> TemplatedSpec:
        """Its request."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status that another cluster gave it."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with other values of some fields."""


Document = TypeVar("Document", bound=WorkloadDocument)
DocumentT_co = TypeVar("DocumentT_co", bound=WorkloadDocument, covariant=True)


class AdmittedWorkload(NamedTuple, Generic[DocumentT_co]):
    """A workload with all defaults, including those of its template, and warnings for its author."""

    workload: DocumentT_co
    warnings: tuple[Problem, ...]


def or_default(value: SizeOrPercent | None, default: SizeOrPercent) -> SizeOrPercent:
    """Return a number of pods, or its default if it is unset."""
    return default if value is None else value


def is_none(size: SizeOrPercent | None) -> bool:
    """Say whether a number of pods is zero."""
    return size in (None, 0, "0%")


def check_sizes(
    surge: SizeOrPercent | None, unavailable: SizeOrPercent | None, path: str, *, surge_at_most_all: bool = False
) -> Iterator[Problem]:
    """Yield the mistakes in the two bounds of a rolling update, which are at `path`."""
    for name, value, at_most_all in (
        ("maxUnavailable", unavailable, True),
        ("maxSurge", surge, surge_at_most_all),
    ):
        if value is not None and (wrong := check_size(value, at_most_all=at_most_all)):
            yield Problem(f"{path}.{name}", wrong)


def check_when_lost(annotations: Mapping[str, str], path: str, traits: Traits) -> Iterator[Problem]:
    """Yield the mistake in the annotation about lost nodes, for a kind with these traits."""
    try:
        rule = when_lost(annotations)
    except ValueError as wrong:
        yield Problem(f"{path}.annotations[{WHEN_LOST}]", str(wrong))
        return
    if rule.action not in traits.lost_rules:
        rules = one_of(tuple(each if each == "wait" else f"{each}=DURATION" for each in traits.lost_rules))
        yield Problem(f"{path}.annotations[{WHEN_LOST}]", f"must be {rules} in a {traits.name}, {traits.lost_why}")
