"""The next actions of a DaemonSet: create its pod on each eligible node, and replace the pods of an earlier template.

Mirrors pkg/controller/daemon, v1.36 (daemon_controller.go, update.go). Differences:

- A new template's first failing pod ends its rollout, and the last good template is rolled out again.
- While the last survey lacks a node, no rollout is complete, and no template becomes good. The node still counts, also
  for the bounds within which other nodes' pods are replaced. Its own pod stays as it is.
- Nodes that cannot be reached count neither for the rollout's bounds nor for its end. The rollout goes on without them,
  and reaches them when they are back.
- A cordoned node gets no new pod. Its present pod stays, with that pod's template.
- A pod that has ended is replaced with a back-off: 10 s, doubling to 300 s, for the whole DaemonSet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member, health, leaving_order, why_unavailable
from syncpod.fleet.offers import NodeOffer
from syncpod.fleet.rollout import (
    Counts,
    Creation,
    RolloutSpec,
    RolloutState,
    Withdrawal,
    WorkloadDecision,
    health_gate,
    why_rolled_back,
    with_setback,
    with_spec,
)
from syncpod.fleet.sizes import SizeOrPercent, size_of
from syncpod.fleet.taints import ENDS, KEEPS_AWAY, NOT_READY, UNREACHABLE, UNSCHEDULABLE, taints_of, untolerated
from syncpod.lifecycle.node_affinity import matches_node
from syncpod.pod import Pod, Toleration

_PRESSURES: Final = ("disk-pressure", "memory-pressure", "pid-pressure")
_ADDED: Final = (
    *(Toleration(key=key, operator="Exists", effect="NoExecute") for key in (NOT_READY, UNREACHABLE)),
    *(Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect="NoSchedule") for name in _PRESSURES),
    Toleration(key=UNSCHEDULABLE, operator="Exists", effect="NoSchedule"),
)
_OF_HOST_NETWORK: Final = Toleration(
    key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule"
)


@dataclass(frozen=True)
class DaemonRolloutSpec:
    """The request of a DaemonSet: the template of the pod on each node, and how pods may be replaced."""

    revision: str
    max_unavailable: SizeOrPercent = 1
    max_surge: SizeOrPercent = 0
    min_ready: timedelta = timedelta(0)


@dataclass(frozen=True)
class Standing:
    """The verdict on one node: whether it should have a pod of a DaemonSet, and whether a pod there may stay."""

    should_run: bool
    """The node should have a pod."""
    may_stay: bool
    """A pod that the node already has may stay."""
    is_present: bool = True
    """The node can be reached."""
    is_tolerated: bool = True
    """The pod tolerates all taints of the node, also those of a node that is lost or cordoned."""
    why: str = ""
    """Why a pod may not stay; "" if it may."""


_UNSEEN: Final = Standing(False, True, is_present=False, is_tolerated=False)
"""A node that a survey has missed: it is joining, or its workflow was beginning a new run. Its pods stay. If the node
had been removed, the pods' owners would have a signal about it."""


def with_daemon_tolerations(pod: Pod) -> Pod:
    """Return a pod with the tolerations that all pods of DaemonSets get: pressure, a cordon, a node that is not ready.

    Mirrors pkg/controller/daemon/util/daemonset_util.go, v1.36, AddOrUpdateDaemonPodTolerations.
    """
    added = (*_ADDED, _OF_HOST_NETWORK) if pod.spec.host_network else _ADDED
    own = pod.spec.tolerations
    tolerations = (*own, *(one for one in added if one not in own))
    return pod.model_copy(update={"spec": pod.spec.model_copy(update={"tolerations": tolerations})})


def standing(pod: Pod, node: NodeOffer) -> Standing:
    """Say whether a node should have a pod of a DaemonSet. The pod has come through `with_daemon_tolerations`.

    Mirrors daemon_controller.go, v1.36, NodeShouldRunDaemonPod. The node's free room does not matter here.
    """
    is_present = node.presence != "Unknown"
    if pod.spec.node_name and pod.spec.node_name != node.name:
        return Standing(False, False, is_present, False, f"spec.nodeName is {pod.spec.node_name}")
    if not matches_node(pod, node.name, node.labels):
        return Standing(False, False, is_present, False, "the node does not match its node selector or affinity")
    if (taint := untolerated(taints_of(node), pod.spec.tolerations, ENDS)) is not None:
        return Standing(False, False, is_present, False, f"it does not tolerate the node's taint {taint}")
    is_tolerated = untolerated(taints_of(node), pod.spec.tolerations, KEEPS_AWAY) is None
    takes_new = is_tolerated and not (node.unschedulable or node.doubled)
    return Standing(is_present and takes_new, True, is_present, is_tolerated)


def decide_daemons(
    spec: DaemonRolloutSpec,
    nodes: Mapping[str, Standing],
    members: Iterable[Member],
    state: RolloutState,
    now: datetime,
    numbers: Iterator[int],
    unread: Collection[str] = (),
) -> WorkloadDecision:
    """Decide what a DaemonSet does next. The order of nodes and pods does not matter.

    A node gets a second pod only as a surge, and only while no other pod is ending there. `nodes` has the nodes that a
    survey has found. A pod on any other node stays. New pods get their numbers from `numbers`. `unread` are nodes that
    the last survey could not read; for these, `nodes` has the result of an earlier survey, if there was one.
    """
    return _DaemonSetDecider(spec, nodes, members, state, now, numbers, unread).decision()


class _DaemonSetDecider:
    """Makes one decision about a DaemonSet."""

    def __init__(
        self,
        spec: DaemonRolloutSpec,
        nodes: Mapping[str, Standing],
        members: Iterable[Member],
        state: RolloutState,
        now: datetime,
        numbers: Iterator[int],
        unread: Collection[str],
    ) -> None:
        self._spec, self._now, self._numbers = spec, now, numbers
        self._members = sorted(members, key=lambda member: member.name)
        self._unread = frozenset(unread)
        hosts = {member.node: Standing(True, True) for member in self._members if member.node in self._unread}
        self._nodes = dict(sorted((hosts | dict(nodes)).items()))
        self._going: dict[str, str] = {}
        self._present = [name for name, node in self._nodes.items() if node.is_present and node.should_run]
        self._read = [name for name in self._present if name not in self._unread]
        """The nodes of `_present` whose pods are made and replaced now."""
        self._closed = [
            name
            for name, node in self._nodes.items()
            if node.is_present and not node.should_run and name not in self._unread
        ]
        """Nodes that take no new pod. Their present pods stay, unless they are outdated and not available."""
        self._surge = size_of(spec.max_surge, len(self._present), up=True)
        self._unavailable = size_of(spec.max_unavailable, len(self._present), up=True)
        self._state = with_spec(RolloutSpec(spec.revision, len(self._present)), state, now)
        self._create: list[Creation] = []
        self._rolled_back = self._failed = self._became_good = self._complete = ""
        self._times: list[datetime] = []

    def decision(self) -> WorkloadDecision:
        self._clear()
        self._judge()
        for name in (*self._read, *self._closed):
            self._fill(name)
        self._replace_outdated()
        self._mark_good()
        counted = [member for member in self._members if self._counts(member)]
        noted = self._numbers_of(self._present, counted)
        self._times += [
            member.ready_since + self._spec.min_ready for member in counted if member.ready_since is not None
        ]
        later = [moment for moment in self._times if moment > self._now]
        return WorkloadDecision(
            state=self._state,
            create=tuple(self._create),
            withdraw=tuple(Withdrawal(name, why) for name, why in sorted(self._going.items())),
            became_good=self._became_good,
            complete=self._complete,
            rolled_back=self._rolled_back,
            failed=self._failed,
            says=self._says(noted),
            look_again=min(later, default=None),
            counts=self._status_numbers(counted),
            # Replay: earlier versions counted these numbers, and wrote the memo when one of them changed.
            noted=noted,
        )

    def _status_numbers(self, counted: Sequence[Member]) -> Counts:
        """Return the numbers of the status. They count a lost or cordoned node too, if the pod tolerates its taints.

        Mirrors daemon_controller.go, v1.36, updateDaemonSetStatus. Difference: such a node counts only while it has a
        pod, since it gets no new one.
        """
        kept = {member.node for member in counted if self._nodes.get(member.node, _UNSEEN).is_tolerated}
        nodes = {*self._present, *kept}
        there = [member for member in counted if member.node in nodes]
        return replace(self._numbers_of(nodes, there), misscheduled=len(counted) - len(there))

    def _numbers_of(self, nodes: Collection[str], there: Sequence[Member]) -> Counts:
        """Return the numbers of the pods `there`, which belong on `nodes`."""
        return Counts(
            desired=len(nodes),
            replicas=len(there),
            updated=sum(map(self._is_new, there)),
            ready=sum(member.is_ready() for member in there),
            available=sum(map(self._is_available, there)),
        )

    def _counts(self, member: Member) -> bool:
        return not member.leaving and not member.ended and member.name not in self._going

    def _there(self, node: str) -> list[Member]:
        """Return the pods on a node that count, the most valuable one first."""
        found = [member for member in self._members if member.node == node]
        return leaving_order(filter(self._counts, found))[::-1]

    def _is_available(self, member: Member) -> bool:
        return member.is_available(self._now, self._spec.min_ready)

    def _is_new(self, member: Member) -> bool:
        return member.revision == self._state.target

    def _clear(self) -> None:
        """Remove pods that have ended, and pods that may not stay on their node."""
        ended = [member for member in self._members if member.ended and not member.leaving]
        for member in ended:
            self._going[member.name] = f"{member.called} is removed: {member.how_ended}"
        if ended:
            self._state = with_setback(self._state, self._now)
        if self._state.held_until is not None:
            self._times.append(self._state.held_until)
        for member in filter(self._counts, self._members):
            node = self._nodes.get(member.node, _UNSEEN)
            if not node.may_stay and member.node not in self._unread:
                self._going[member.name] = f"{member.called} is removed: {node.why}"

    def _judge(self) -> None:
        """Go back to the last good template if a pod of the new one fails."""
        state = self._state
        if not state.good or state.target == state.good:
            return
        failing = health_gate(one for one in self._members if self._is_new(one) and not one.leaving)
        if failing is not None:
            why = why_rolled_back(failing, state.good)
            self._rolled_back, self._failed = why, failing.name
            self._state = replace(state, target=state.good, rolled_back=why, setbacks=0, held_until=None)

    def _fill(self, name: str) -> None:
        """Make sure that a node has one pod.

        The best one of several pods stays. During a surge an old pod stays until its successor is available.
        """
        there = self._there(name)
        new, old = [one for one in there if self._is_new(one)], [one for one in there if not self._is_new(one)]
        keeps_old = old[:1] if self._surge and not any(map(self._is_available, new)) else []
        kept = (new[:1] + keeps_old) if new else old[:1]
        for member in there:
            if member not in kept:
                reason = f"the node already has {kept[0].name}" if self._is_new(member) else self._outdated()
                self._going[member.name] = f"{member.called} is removed: {reason}"
        if not kept and self._nodes[name].should_run and not self._is_ending_on(name) and not self._is_held():
            self._create.append(Creation(next(self._numbers), self._state.target, node=name))

    def _replace_outdated(self) -> None:
        """Remove old pods, or create new ones beside them, as many as the bounds allow."""
        held = self._is_held() or self._is_in_trouble()
        alone = [there[0] for name in self._read if len(there := self._there(name)) == 1 and not self._is_new(there[0])]
        both = sum(len(self._there(name)) > 1 for name in self._present)
        lacking = sum(not any(map(self._is_available, self._there(name))) for name in self._present)
        for member in (one for name in self._closed for one in self._there(name) if not self._is_new(one)):
            if not self._is_available(member):
                self._going[member.name] = f"{member.called} is removed: {self._outdated()}"
        for member in sorted(alone, key=lambda one: (self._is_available(one), one.node)):
            if self._surge:
                if both < self._surge and not held and not self._is_ending_on(member.node):
                    self._create.append(Creation(next(self._numbers), self._state.target, node=member.node))
                    both += 1
            elif not self._is_available(member):
                self._going[member.name] = f"{member.called} is removed: {self._outdated()}"
            elif lacking < self._unavailable and not held:
                self._going[member.name] = f"{member.called} is removed: {self._outdated()}"
                lacking += 1

    def _is_ending_on(self, node: str) -> bool:
        going = (one for one in self._members if one.leaving or one.name in self._going)
        return any(one.node == node and not one.ended for one in going)

    def _is_held(self) -> bool:
        return self._state.held_until is not None and self._now < self._state.held_until

    def _is_in_trouble(self) -> bool:
        state = self._state
        is_rolling_out = bool(state.good) and state.target != state.good
        counted = filter(self._counts, self._members)
        return is_rolling_out and any(self._is_new(member) and health(member) != "fine" for member in counted)

    def _outdated(self) -> str:
        return f"{self._state.target} is being rolled out"

    def _is_complete(self) -> bool:
        """Say whether each reachable node has exactly one pod, and the pod is available and of the target revision.

        A node that was not read may lack its pod.
        """
        return not (self._create or self._unread) and all(
            len(there := self._there(name)) == 1 and self._is_new(there[0]) and self._is_available(there[0])
            for name in self._present
        )

    def _mark_good(self) -> None:
        if not self._present or not self._is_complete():
            return
        self._complete = self._state.target
        self._state = replace(self._state, setbacks=0, held_until=None)
        if self._state.good != self._state.target:
            self._became_good = self._state.target
            self._state = replace(self._state, good=self._state.target)

    def _says(self, counts: Counts) -> str:
        state = self._state
        available = f"{counts.available} {'is' if counts.available == 1 else 'are'} available"
        numbers = f"{counts.updated} of {counts.desired} nodes have it, {available}"
        if self._is_complete():
            return f"{state.target} is rolled out{f'; {state.rolled_back}' if state.rolled_back else ''}"
        how = "is incomplete" if state.target == state.good else "is being rolled out"
        said = f"{state.rolled_back or f'{state.target} {how}'}: {numbers}"
        there = [one for name in self._present for one in self._there(name) if self._is_new(one)]
        unread = [f"no answer from {_some(self._unread)}"] if self._unread else []
        lacks = (why_unavailable(each) for each in there if not self._is_available(each))
        return "; ".join([said, *unread, *lacks][:2])


def _some(nodes: Collection[str]) -> str:
    """Return nodes for use in a sentence: up to three by name."""
    names = sorted(nodes)
    return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 3 else ", ".join(names)
