"""A Pod without a workload that a fleet places: how it is read, what is done next, and which fields are fixed.

Such a pod has the same name on every node. A second copy is made only while the pod's node is drained or, if the pod's
annotation allows it, after the node was lost. It is never made while the first copy may still be ending. A pod that has
ended stays, as in a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from typing_extensions import override

from syncpod.fleet.members import Member
from syncpod.fleet.rollout import RolloutSpec, RolloutState, WorkloadDecision, decide
from syncpod.fleet.when_lost import WhenLost
from syncpod.fleet.workload_documents import AdmittedWorkload, PodTemplate, check_when_lost
from syncpod.fleet.workload_kinds import Situation, WorkloadKind
from syncpod.fleet.workload_pods import grace_of, revision_of
from syncpod.fleet.workload_traits import POD
from syncpod.pod import Pod, PodInvalid, admit, readmit
from syncpod.pod.support import is_of_placement

_ONE: Final = "the pod"
"""The constant revision of such a pod. Its node changes the pod in place, so a change never creates another pod."""
_FIXED: Final = (
    "node_name",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
)
"""Fields that the placement has already used."""


class BarePods(WorkloadKind[Pod]):
    """The kind of a Pod without a workload."""

    traits = POD

    @override
    def admit(self, document: Mapping[str, Any]) -> AdmittedWorkload[Pod]:
        """Admit a Pod as a node does, and check the annotation that only a fleet reads.

        If the fleet places the Pod, there are no warnings about fields for its placement. A Pod with a `nodeName` gets
        them.
        """
        admitted = admit(document)
        if problems := list(check_when_lost(admitted.pod.metadata.annotations, "metadata", self.traits)):
            raise PodInvalid(problems)
        is_placed = not admitted.pod.spec.node_name
        warnings = tuple(each for each in admitted.warnings if not (is_placed and is_of_placement(each)))
        return AdmittedWorkload(admitted.pod, warnings)

    @override
    def readmit(self, document: Mapping[str, Any]) -> Pod:
        return readmit(document).pod

    @override
    def template(self, workload: Pod) -> PodTemplate:
        """Return the Pod itself, without its name."""
        metadata = workload.metadata.model_copy(update={"name": "", "namespace": ""})
        return PodTemplate(metadata=metadata, spec=workload.spec)

    @override
    def pod(self, workload: Pod, template: PodTemplate, number: int) -> Pod:
        """Return the Pod as it is, whatever the template and the number."""
        return workload

    @override
    def decide(self, workload: Pod, at: Situation, now: datetime) -> WorkloadDecision:
        template, numbers = self.template(workload), self.free_numbers(at)
        decided = decide_bare(self.lost_rule(workload), grace_of(template), at.members, at.rollout, now, numbers)
        # A copy has the revision of the whole document: its node may be sent another document later.
        create = (replace(each, revision=revision_of(template)) for each in decided.create)
        return replace(decided, create=tuple(create))

    @override
    def desired(self, workload: Pod, decided: int | None) -> int:
        return 1

    @override
    def fixed(self, before: Pod, after: Pod, at: Situation) -> str:
        path = placement_changed(before, after) if at.is_placed else ""
        return f"{path}: must not be changed once a node is chosen; delete the pod, and apply it again" if path else ""


def decide_bare(
    rule: WhenLost,
    grace: timedelta,
    members: Iterable[Member],
    state: RolloutState,
    now: datetime,
    numbers: Iterator[int],
) -> WorkloadDecision:
    """Decide what is next for a pod. `members` are its copies: at most one, unless a node was lost.

    `grace` is the pod's grace period. New copies get their numbers from `numbers`. If there are two copies, one is
    removed, as `syncpod.fleet.presence.choose_copy` decides. A copy that has ended counts as available, so it is not
    replaced.
    """
    spec = RolloutSpec(
        _ONE, 1, max_surge=0, max_unavailable=1, recreate=True, deadline=None, when_lost=rule, grace=grace
    )
    # Sorted, so that the sentence does not depend on the order of the members.
    copies = sorted(map(_copy, members), key=lambda each: each.name)
    decided = decide(spec, copies, state, now, numbers)
    return replace(decided, says=_says(copies, decided))


def placement_changed(before: Pod, after: Pod) -> str:
    """Return the path of the first field that differs and that the placement has already used; "" if there is none."""
    for name in _FIXED:
        if getattr(before.spec, name) != getattr(after.spec, name):
            alias = type(before.spec).model_fields[name].alias or name
            return f"spec.{alias}"
    return ""


def _copy(member: Member) -> Member:
    ready = member.ready_since or (member.created if member.ended else None)
    return replace(member, revision=_ONE, ready_since=ready, ended=False)


def _says(copies: Iterable[Member], decided: WorkloadDecision) -> str:
    going = {each.name for each in decided.withdraw}
    off = decided.state.written_off
    stays = [each for each in copies if not each.leaving and each.name not in going and each.name not in off]
    if not stays:
        ending = [each for each in copies if each.name not in off]
        return f"it waits until {ending[0].called} is gone" if ending else "it is on no node"
    one = stays[0]
    if not one.node:
        return f"it is on no node: {one.message}" if one.message else "looking for a node"
    return f"it is on {one.node}"
