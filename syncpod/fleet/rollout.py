"""The next actions of a Deployment: create or withdraw pods, accept a template, or go back to the last good one.

Mirrors pkg/controller/deployment, v1.36 (rolling.go, recreate.go, progress.go) in one step over pods, without
ReplicaSets. Differences:

- A new template's rollout ends with its first failing pod, or at its progress deadline. The last good template is then
  rolled out again. In a cluster somebody has to notice and undo the rollout.
- No pod of the new template is made while another one is in trouble.
- A pod that has ended is replaced with a back-off: 10 s, doubling to 300 s.
- Under `Recreate` no pod is made while another is still ending, whatever its template. That time does not count against
  the progress deadline.
- A paused rollout that is scaled up grows by pods of its last good template. A cluster scales all ReplicaSets in
  proportion.
- Pods of a draining node are replaced like pods of an earlier template, within the same bounds. A cluster's drain
  evicts them, and only a PodDisruptionBudget limits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member, health, leaving_order, why_unavailable
from syncpod.fleet.presence import choose_copy, written_off_at
from syncpod.fleet.when_lost import WAIT, WhenLost
from syncpod.go_durations import go_duration

_FIRST_HOLD: Final = timedelta(seconds=10)
_LONGEST_HOLD: Final = timedelta(seconds=300)


_NOTHING_YET: Final = (0, -(2**31), 0)
"""A state below that of any rollout: new pods, other pods (negative), available new pods."""


@dataclass(frozen=True)
class RolloutSpec:
    """The request of a Deployment: a number of pods of a template, and how they may be replaced."""

    revision: str
    replicas: int
    max_surge: int = 1
    max_unavailable: int = 0
    recreate: bool = False
    paused: bool = False
    min_ready: timedelta = timedelta(0)
    deadline: timedelta | None = timedelta(seconds=600)
    """The longest time without progress; None = no limit."""
    when_lost: WhenLost = WAIT
    grace: timedelta = timedelta(seconds=30)
    """The grace period of its pods."""

    @property
    def wanted(self) -> str:
        """The number of pods, for use in a sentence: ``2 pods are wanted``."""
        return "1 pod is wanted" if self.replicas == 1 else f"{self.replicas} pods are wanted"


@dataclass(frozen=True)
class RolloutState:
    """The memory of a rollout from one decision to the next."""

    asked: str = ""
    """The revision of the latest spec."""
    target: str = ""
    """The revision that is being rolled out: `asked`, or the last good one after a rollback."""
    good: str = ""
    """The last revision with which all pods were available."""
    rolled_back: str = ""
    """Why `asked` was rolled back; "" if it was not."""
    replicas: int = 0
    best: tuple[int, int, int] = _NOTHING_YET
    """The most new pods, the fewest other pods (negative) and the most available new pods so far in this rollout."""
    progressed_at: datetime | None = None
    arrived: bool = False
    """All pods have been available once since the deadline began to count. From then on, the deadline does not
    apply."""
    written_off: tuple[str, ...] = ()
    """Pods on lost nodes that may be replaced."""
    setbacks: int = 0
    """How many decisions have found ended pods since the rollout was last complete."""
    held_until: datetime | None = None
    """No pod is made before this time."""
    moving: tuple[str, ...] = ()
    """Pods that were on draining nodes at the last decision."""
    paused: bool = False
    """The rollout was paused at the last decision."""


@dataclass(frozen=True)
class Creation:
    """A pod that is to be made."""

    number: int
    revision: str
    replaces: str = ""
    """The pod on a lost node that it replaces; "" = none."""
    node: str = ""
    """The node that it must be on; "" = placement chooses."""


@dataclass(frozen=True)
class Withdrawal:
    """A pod that is to go, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Counts:
    """A workload's numbers, as ``get deployments`` prints them."""

    desired: int | None = None
    """How many pods there should be; None = not decided yet."""
    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    misscheduled: int = 0
    """How many pods of a DaemonSet are on nodes that should not have one, and count in no other number."""


@dataclass(frozen=True)
class WorkloadDecision:
    """The actions that are due now."""

    state: RolloutState
    create: tuple[Creation, ...] = ()
    withdraw: tuple[Withdrawal, ...] = ()
    became_good: str = ""
    """The revision that has just become good; "" = none."""
    complete: str = ""
    """The revision that all pods have, if all of them are available; else ""."""
    rolled_back: str = ""
    """Why this decision rolls back to the last good template; "" = it does not."""
    failed: str = ""
    """The pod whose failure causes the rollback; "" = there is no rollback, or no pod is to blame."""
    says: str = ""
    """How the rollout stands, in one sentence."""
    stalled: str = ""
    """A sentence with the reason if the rollout has made no progress within its deadline; "" if it is not stuck."""
    look_again: datetime | None = None
    """The next time at which the decision can change without a new report; None = never."""
    counts: Counts = Counts()
    noted: Counts | None = None
    """The numbers whose change is a reason to write the memo; None = those of `counts`."""


def decide(
    spec: RolloutSpec, members: Iterable[Member], state: RolloutState, now: datetime, numbers: Iterator[int]
) -> WorkloadDecision:
    """Decide what a Deployment does next. The order of its pods does not matter. New pods get numbers from `numbers`.

    A decision never creates more than `replicas + max_surge` pods in all, and never withdraws an available pod if fewer
    than `replicas - max_unavailable` would remain available. Pods on lost nodes that are written off do not count.
    """
    return _DeploymentDecider(spec, members, state, now, numbers).decision()


def health_gate(new: Iterable[Member]) -> Member | None:
    """Return the first failing pod of a new template, which ends the template's rollout; None if none fails."""
    return next((member for member in new if health(member) == "failing"), None)


def why_rolled_back(failing: Member, good: str) -> str:
    """Say in a sentence why the rollout of a failing pod's template ends."""
    said = f": {failing.message}" if failing.message else ""
    status = failing.status or "an unknown status"
    return f"{failing.called} of {failing.revision} fails with {status}{said}; rolling back to {good}"


def _what_keeps(member: Member) -> str:
    """Say why a pod is not available: by its message, or else by its state."""
    if member.message and member.presence == "Ready":
        return f"{member.called}: {member.message.rstrip('.')}"  # kube-scheduler's sentences end with a full stop
    return why_unavailable(member)


def with_spec(spec: RolloutSpec, state: RolloutState, now: datetime) -> RolloutState:
    """Return the state with the spec recorded. A new template becomes the target.

    A new template, another number of pods or the end of a pause restarts the progress deadline. It applies until all
    pods are available: later changes of the pods are no lack of progress (DeploymentTimedOut).
    """
    if spec.paused:
        return replace(state, replicas=spec.replicas, progressed_at=now, paused=True)
    is_resumed, state = state.paused, replace(state, paused=False)
    if spec.revision != state.asked:
        state = replace(state, asked=spec.revision, target=spec.revision, rolled_back="")
    elif spec.replicas == state.replicas and state.progressed_at is not None and not is_resumed:
        return state
    return replace(state, best=_NOTHING_YET, progressed_at=now, arrived=False, replicas=spec.replicas)


def with_setback(state: RolloutState, now: datetime) -> RolloutState:
    """Return the state after pods have ended: no pod is made for 10 s, doubling each time up to 300 s."""
    hold = min(_FIRST_HOLD * 2 ** min(state.setbacks, 8), _LONGEST_HOLD)
    return replace(state, setbacks=state.setbacks + 1, held_until=now + hold)


class _DeploymentDecider:
    """Makes one decision about a Deployment."""

    def __init__(
        self, spec: RolloutSpec, members: Iterable[Member], state: RolloutState, now: datetime, numbers: Iterator[int]
    ) -> None:
        self._spec, self._now, self._numbers = spec, now, numbers
        self._members = sorted(members, key=lambda member: member.name)
        self._state = with_spec(spec, state, now)
        self._going: dict[str, str] = {}
        self._off = {member.name for member in self._present() if member.name in state.written_off}
        self._rolled_back = self._failed = self._became_good = self._complete = ""
        self._times: list[datetime] = []

    def decision(self) -> WorkloadDecision:
        self._write_off()
        self._take_back()
        self._clear_ended()
        self._note_moves()
        self._judge()
        create = self._create_and_withdraw()
        self._mark_good(create)
        counted = self._counted()
        counts = Counts(
            desired=self._spec.replicas,
            replicas=len(counted),
            updated=len(self._new()) if not self._is_held_back() else self._of_spec(counted),
            ready=sum(member.is_ready() for member in counted),
            available=len(self._available(counted)),
        )
        self._times += [
            member.ready_since + self._spec.min_ready
            for member in counted
            if member.is_ready() and member.ready_since is not None
        ]
        # Pods that are leaving count too: under `Recreate` no pod is made before they are gone or written off.
        moments = [self._written_off_at(member) for member in self._members if member.name not in self._off]
        self._times += [moment for moment in moments if moment is not None]
        says = self._says(counts)
        later = [moment for moment in self._times if moment > self._now]
        return WorkloadDecision(
            state=replace(self._state, written_off=tuple(sorted(self._off - set(self._going)))),
            create=self._named(create),
            withdraw=tuple(Withdrawal(name, why) for name, why in sorted(self._going.items())),
            became_good=self._became_good,
            complete=self._complete,
            rolled_back=self._rolled_back,
            failed=self._failed,
            says=says,
            stalled="" if self._spec.paused else self._stalled(""),
            look_again=min(later, default=None),
            counts=counts,
        )

    def _present(self) -> list[Member]:
        """Return the pods that are not being removed, including those on lost nodes."""
        return [member for member in self._members if not member.leaving and member.name not in self._going]

    def _counted(self) -> list[Member]:
        return [member for member in self._present() if member.name not in self._off and not member.ended]

    def _new(self) -> list[Member]:
        return [member for member in self._counted() if member.revision == self._state.target and not member.moving]

    def _is_held_back(self) -> bool:
        """Say whether a pause holds back a newer template than the target."""
        return self._spec.paused and self._spec.revision != self._state.asked

    def _of_spec(self, members: Iterable[Member]) -> int:
        """Return how many pods have the newest template. They count as up to date even in a pause, as in a cluster."""
        return sum(member.revision == self._spec.revision and not member.moving for member in members)

    def _old(self) -> list[Member]:
        return [member for member in self._counted() if member.revision != self._state.target or member.moving]

    def _available(self, members: Iterable[Member]) -> list[Member]:
        return [member for member in members if member.is_available(self._now, self._spec.min_ready)]

    def _write_off(self) -> None:
        """Write off pods whose nodes have been lost for long enough."""
        for member in self._present():
            moment = self._written_off_at(member)
            if moment is not None and moment <= self._now:
                self._off.add(member.name)

    def _written_off_at(self, member: Member) -> datetime | None:
        return written_off_at(member, self._spec.when_lost, self._spec.grace)

    def _is_written_off(self, member: Member) -> bool:
        moment = self._written_off_at(member)
        return member.name in self._off or (moment is not None and moment <= self._now)

    def _take_back(self) -> None:
        """Count the pods of returned nodes again, and remove one of each pair of copies."""
        for member in self._present():
            if member.name not in self._off or member.presence == "Unknown" or member.ended:
                continue
            successor = self._successor(member.name)
            self._off.discard(member.name)
            enough = len(self._counted()) > self._spec.replicas
            if successor is not None and enough and member.revision == successor.revision:
                choice = choose_copy(member, successor, self._spec.when_lost, self._now, self._spec.min_ready)
                if not self._is_needed(choice.goes):
                    self._going[choice.goes] = choice.why

    def _is_needed(self, name: str) -> bool:
        """Say whether too few pods would be available without the pod of this name."""
        available = {member.name for member in self._available(self._counted())}
        return name in available and len(available) <= self._spec.replicas - self._spec.max_unavailable

    def _successor(self, name: str) -> Member | None:
        """Return the pod that now replaces a lost pod; if its replacement was lost too, the replacement's successor."""
        counted = {member.name for member in self._counted()}
        for member in self._present():
            if member.replaces == name and member.name != name:
                return member if member.name in counted else self._successor(member.name)
        return None

    def _clear_ended(self) -> None:
        ended = [member for member in self._present() if member.ended]
        for member in ended:
            self._going[member.name] = f"{member.called} is removed: {member.how_ended}"
        if ended:
            self._state = with_setback(self._state, self._now)
        if self._state.held_until is not None:
            self._times.append(self._state.held_until)

    def _note_moves(self) -> None:
        """Restart the progress deadline when a drain begins or ends: the template is not to blame for that delay."""
        moving = tuple(member.name for member in self._counted() if member.moving)
        if moving != self._state.moving:
            state = replace(self._state, best=_NOTHING_YET, progressed_at=self._now, arrived=False)
            self._state = replace(state, moving=moving)

    def _judge(self) -> None:
        """Note progress, and go back to the last good template if the new one fails or makes no progress."""
        state, new = self._state, self._new()
        reached = (len(new), -len(self._old()), len(self._available(new)))
        best = tuple(map(max, state.best, reached))
        if best != state.best or self._to_be_awaited():
            state = replace(state, best=(best[0], best[1], best[2]), progressed_at=self._now)
        self._state = state
        is_rolling_out = bool(state.good) and state.target != state.good
        if self._spec.paused or not is_rolling_out:
            return
        failing = health_gate(one for one in self._members if one.revision == state.target and not one.leaving)
        if failing is not None:
            why = why_rolled_back(failing, state.good)
        else:
            why, failing = self._stalled(f"; rolling back to {state.good}"), self._lacking()
        if why:
            self._rolled_back, self._failed = why, failing.name if failing is not None else ""
            state = replace(state, target=state.good, rolled_back=why, best=_NOTHING_YET, progressed_at=self._now)
            self._state = replace(state, arrived=False, setbacks=0, held_until=None)

    def _stalled(self, what_now: str) -> str:
        """Return a sentence with the reason if the rollout has passed its progress deadline; "" if it has not."""
        since, limit = self._state.progressed_at, self._spec.deadline
        if since is None or limit is None or self._state.arrived or self._is_complete():
            return ""
        if since + limit > self._now:
            self._times.append(since + limit)
            return ""
        new, lacking = self._new(), self._lacking()
        said = f"; {_what_keeps(lacking)}" if lacking is not None else ""
        available = f"{len(self._available(new))} of {self._spec.replicas} pods available"
        return f"{self._state.target} made no progress in {go_duration(limit)}: {available}{said}{what_now}"

    def _lacking(self) -> Member | None:
        """Return the first pod of the new template that is not available; None if there is none."""
        new = self._new()
        return next((member for member in new if member not in self._available(new)), None)

    def _is_complete(self) -> bool:
        new = self._new()
        return not self._old() and len(new) == self._spec.replicas == len(self._available(new))

    def _create_and_withdraw(self) -> int:
        """Choose the pods to withdraw, and return how many pods to make."""
        if self._spec.paused:
            return self._scale_only()
        new = self._new()
        for member in leaving_order(new)[: max(0, len(new) - self._spec.replicas)]:
            self._going[member.name] = f"{member.called} is removed: {self._spec.wanted}"
        return self._recreate() if self._spec.recreate else self._roll()

    def _recreate(self) -> int:
        """Make pods of a new template only after all others are gone."""
        for member in self._old():
            self._going[member.name] = self._outdated(member)
        return self._allowed(self._spec.replicas - len(self._new()))

    def _to_be_awaited(self) -> list[Member]:
        """Return the pods that must be gone before a pod of a new template is made; always none without `Recreate`."""
        return [
            member
            for member in self._members
            if self._spec.recreate
            and (member.leaving or member.name in self._going or self._is_outdated(member))
            and not (member.ended or self._is_written_off(member))
        ]

    def _is_outdated(self, member: Member) -> bool:
        return member.revision != self._state.target and not self._spec.paused

    def _roll(self) -> int:
        spec, counted, new, old = self._spec, self._counted(), self._new(), self._old()
        create = self._allowed(min(spec.replicas - len(new), spec.replicas + spec.max_surge - len(counted)))
        least = spec.replicas - spec.max_unavailable
        unavailable = len(new) - len(self._available(new))
        budget = max(0, len(counted) - least - unavailable)
        spare = max(0, len(self._available(counted)) - least)
        is_available = {member.name for member in self._available(old)}
        for member in sorted(leaving_order(old), key=lambda member: member.name in is_available):
            costs = member.name in is_available
            if not budget or (costs and not spare):
                break
            self._going[member.name] = self._outdated(member)
            budget, spare = budget - 1, spare - costs
        return create

    def _scale_only(self) -> int:
        """Follow a paused rollout's number of replicas, and change nothing else."""
        spec, counted = self._spec, self._counted()
        if not self._state.target:
            return 0
        is_between = bool(self._new()) and bool(self._old())
        staying = [member for member in counted if not member.moving]
        most = spec.replicas + (spec.max_surge if is_between or len(staying) < len(counted) else 0)
        for member in leaving_order(counted)[: max(0, len(counted) - most)]:
            self._going[member.name] = f"{member.called} is removed: {spec.wanted}"
        self._move_within(0 if spec.recreate else spec.replicas - spec.max_unavailable)
        return self._allowed(min(spec.replicas - len(staying), most - len(counted)))

    def _move_within(self, least: int) -> None:
        """Withdraw pods of draining nodes, as long as `least` pods stay available."""
        for member in leaving_order(each for each in self._counted() if each.moving):
            available = [one.name for one in self._available(self._counted())]
            if member.name not in available or len(available) > least:
                self._going[member.name] = self._outdated(member)

    def _allowed(self, number: int) -> int:
        """Return how many of `number` pods may be made now."""
        state = self._state
        if state.held_until is not None and self._now < state.held_until:
            return 0
        if self._to_be_awaited():
            return 0
        # A paused rollout makes pods of the last good template.
        is_new = bool(state.good) and state.target != state.good and not self._spec.paused
        in_trouble = is_new and any(health(member) != "fine" for member in self._new())
        return 0 if in_trouble else max(0, number)

    def _outdated(self, member: Member) -> str:
        if member.moving:
            return f"{member.called} is removed: {member.node} is being drained"
        return f"{member.called} is removed: it is of {member.revision}, and {self._state.target} is being rolled out"

    def _mark_good(self, create: int) -> None:
        if create or not self._spec.replicas or not self._is_complete():
            return
        self._complete = self._state.target
        self._state = replace(self._state, arrived=True, setbacks=0, held_until=None)
        if self._state.good != self._state.target:
            self._became_good = self._state.target
            self._state = replace(self._state, good=self._state.target)

    def _named(self, number: int) -> tuple[Creation, ...]:
        """Return the pods to make. The first ones replace the pods that are written off."""
        paused_on_good = self._spec.paused and self._state.good
        revision = self._state.good if paused_on_good else self._state.target
        lost = [name for name in sorted(self._off - set(self._going)) if self._successor(name) is None]
        return tuple(
            Creation(next(self._numbers), revision, lost[index] if index < len(lost) else "") for index in range(number)
        )

    def _says(self, counts: Counts) -> str:
        spec, state = self._spec, self._state
        new, verb = self._new(), "is" if counts.available == 1 else "are"
        numbers = f"{len(new)} of {spec.replicas} pods have it, {counts.available} {verb} available"
        if self._is_complete() or (not spec.replicas and not counts.replicas):
            done = f"{state.target} is rolled out"
            if self._is_held_back():
                return f"{done}; {spec.revision} is held back, since it is paused"
            return f"{done}; {state.rolled_back}" if state.rolled_back else done
        if spec.paused:
            return f"{state.target or spec.revision} is paused: {numbers}"
        if state.rolled_back:
            return f"{state.rolled_back}: {numbers}"
        if awaited := self._to_be_awaited():
            return f"{state.target} waits until {awaited[0].called} is gone: {numbers}"
        how = "is incomplete" if state.target == state.good else "is being rolled out"
        available = set(self._available(new))
        lacks = "".join([f"; {why_unavailable(each)}" for each in new if each not in available][:1])
        return self._stalled("") or f"{state.target} {how}: {numbers}{lacks}"
