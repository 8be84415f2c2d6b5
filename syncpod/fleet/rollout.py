"""What a Deployment does next: create, withdraw, accept a template as good, or go back to the last good one.

Mirrors pkg/controller/deployment, v1.36 (rolling.go, recreate.go, progress.go) in one step over pods, without
ReplicaSets. Differences:

- A new template's first failing pod ends its rollout, as its progress deadline does, and the last template that was
  good is rolled out again. A cluster leaves both to whoever looks.
- While a pod of the new template is in trouble, no other is made.
- A pod that has ended is replaced with a back-off: 10 s, doubling to 300 s.
- Under `Recreate` no pod is made while another is still ending, whatever its template. That is no lack of progress.
- A paused rollout that is scaled up grows by pods of its last good template; a cluster scales all in proportion.
- Pods of a node that is drained are replaced as those of an earlier template are, within the same bounds. A cluster's
  drain evicts them, and knows no bounds but those of a PodDisruptionBudget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from syncpod.fleet.members import Member, health, leaving_order
from syncpod.fleet.presence import part, written_off_at
from syncpod.fleet.when_lost import WAIT, WhenLost
from syncpod.go_durations import go_duration

_FIRST_HOLD: Final = timedelta(seconds=10)
_LONGEST_HOLD: Final = timedelta(seconds=300)


_NOTHING_YET: Final = (0, -(2**31), 0)
"""Below what any rollout has reached: new pods, others (negative), available new ones."""


@dataclass(frozen=True)
class Wish:
    """What is asked for: so many pods of a template, and how they may be replaced."""

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
    """The time in which one of its pods ends."""


@dataclass(frozen=True)
class RolloutState:
    """What a rollout has to remember from one decision to the next."""

    asked: str = ""
    """The revision that was asked for last."""
    target: str = ""
    """The revision that is rolled out: the one that is asked for, or after a way back the last good one."""
    good: str = ""
    """The last revision that all pods had, and with which they were available."""
    rolled_back: str = ""
    """Why what is asked for was given up; "" if it was not."""
    replicas: int = 0
    best: tuple[int, int, int] = _NOTHING_YET
    """The most new pods, the fewest others (negative) and the most available new pods so far in this rollout."""
    progressed_at: datetime | None = None
    written_off: tuple[str, ...] = ()
    """Pods on lost nodes in whose place others may be."""
    setbacks: int = 0
    """Times in a row that pods had ended."""
    held_until: datetime | None = None
    """No pod is made before this."""
    moving: tuple[str, ...] = ()
    """Pods that nodes which are drained had at the last decision."""


@dataclass(frozen=True)
class Creation:
    """A pod that is to be made."""

    revision: str
    replaces: str = ""
    """The pod on a lost node whose place it takes."""
    node: str = ""
    """Where it has to be; "" = where placement says."""


@dataclass(frozen=True)
class Withdrawal:
    """A pod that is to go, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Counts:
    """A workload's numbers, as ``get deployments`` has them."""

    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0


@dataclass(frozen=True)
class Decision:
    """What is to be done now."""

    state: RolloutState
    create: tuple[Creation, ...] = ()
    withdraw: tuple[Withdrawal, ...] = ()
    became_good: str = ""
    """The revision that is good from now on; "" = none has become so."""
    rolled_back: str = ""
    """Why this decision went back to the last good template; "" = it did not."""
    says: str = ""
    """How the rollout stands, in one sentence."""
    look_again: datetime | None = None
    """When time alone changes the decision; None = never."""
    counts: Counts = Counts()


def decide(wish: Wish, members: Iterable[Member], state: RolloutState, now: datetime) -> Decision:
    """Decide what a Deployment does next; the order of its pods does not matter.

    No more than `replicas + max_surge` pods are made to exist, and no available pod is withdrawn if fewer than
    `replicas - max_unavailable` would be available then. Pods on lost nodes that are written off do not count as pods.
    """
    return _Round(wish, members, state, now).decision()


def health_gate(new: Iterable[Member], revision: str, good: str) -> str:
    """Return the sentence that ends the rollout of a revision, for its first pod that fails; "" if none does."""
    for member in new:
        if health(member) == "failing":
            said = f": {member.message}" if member.message else ""
            return f"{member.called} of {revision} fails with {member.status or 'an end'}{said}; back to {good}"
    return ""


def taken_up(wish: Wish, state: RolloutState, now: datetime) -> RolloutState:
    """Return the state in which a new template, if the wish has one, is the target."""
    if wish.paused:
        return replace(state, replicas=wish.replicas, progressed_at=now)
    if wish.revision != state.asked:
        state = replace(state, asked=wish.revision, target=wish.revision, rolled_back="")
    elif wish.replicas == state.replicas and state.progressed_at is not None:
        return state
    return replace(state, best=_NOTHING_YET, progressed_at=now, replicas=wish.replicas)


def ended_again(state: RolloutState, now: datetime) -> RolloutState:
    """Return the state after pods have ended: none is made for 10 s, and for twice as long each time, up to 300 s."""
    hold = min(_FIRST_HOLD * 2 ** min(state.setbacks, 8), _LONGEST_HOLD)
    return replace(state, setbacks=state.setbacks + 1, held_until=now + hold)


class _Round:
    """One decision."""

    def __init__(self, wish: Wish, members: Iterable[Member], state: RolloutState, now: datetime) -> None:
        self._wish, self._now = wish, now
        self._members = sorted(members, key=lambda member: member.name)
        self._state = taken_up(wish, state, now)
        self._going: dict[str, str] = {}
        self._off = {member.name for member in self._present() if member.name in state.written_off}
        self._rolled_back = self._became_good = ""
        self._times: list[datetime] = []

    def decision(self) -> Decision:
        self._write_off()
        self._take_back()
        self._clear_ended()
        self._note_moves()
        self._judge()
        create = self._create_and_withdraw()
        self._mark_good(create)
        counted = self._counted()
        counts = Counts(
            replicas=len(counted),
            updated=len(self._new()),
            ready=sum(member.is_ready() for member in counted),
            available=len(self._available(counted)),
        )
        self._times += [
            member.ready_since + self._wish.min_ready
            for member in counted
            if member.is_ready() and member.ready_since is not None
        ]
        says = self._says(counts)
        later = [moment for moment in self._times if moment > self._now]
        return Decision(
            state=replace(self._state, written_off=tuple(sorted(self._off - set(self._going)))),
            create=self._named(create),
            withdraw=tuple(Withdrawal(name, why) for name, why in sorted(self._going.items())),
            became_good=self._became_good,
            rolled_back=self._rolled_back,
            says=says,
            look_again=min(later, default=None),
            counts=counts,
        )

    def _present(self) -> list[Member]:
        """Return the pods that nobody has asked to go, those on lost nodes too."""
        return [member for member in self._members if not member.leaving and member.name not in self._going]

    def _counted(self) -> list[Member]:
        return [member for member in self._present() if member.name not in self._off and not member.ended]

    def _new(self) -> list[Member]:
        return [member for member in self._counted() if member.revision == self._state.target and not member.moving]

    def _old(self) -> list[Member]:
        return [member for member in self._counted() if member.revision != self._state.target or member.moving]

    def _available(self, members: Iterable[Member]) -> list[Member]:
        return [member for member in members if member.is_available(self._now, self._wish.min_ready)]

    def _write_off(self) -> None:
        """Give up pods whose nodes have been lost for long enough."""
        for member in self._present():
            moment = written_off_at(member, self._wish.when_lost, self._wish.grace)
            if moment is None or member.name in self._off:
                continue
            if moment <= self._now:
                self._off.add(member.name)
            else:
                self._times.append(moment)

    def _is_written_off(self, member: Member) -> bool:
        moment = written_off_at(member, self._wish.when_lost, self._wish.grace)
        return member.name in self._off or (moment is not None and moment <= self._now)

    def _take_back(self) -> None:
        """Have pods whose nodes are back count again, and of each pair of copies let one go."""
        for member in self._present():
            if member.name not in self._off or member.presence == "Unknown" or member.ended:
                continue
            successor = self._successor(member.name)
            self._off.discard(member.name)
            enough = len(self._counted()) > self._wish.replicas
            if successor is not None and enough and member.revision == successor.revision:
                parting = part(member, successor, self._wish.when_lost, self._now, self._wish.min_ready)
                if not self._is_needed(parting.goes):
                    self._going[parting.goes] = parting.why

    def _is_needed(self, name: str) -> bool:
        """Say whether too few pods would be available without this one: then an unavailable one goes in its place."""
        available = {member.name for member in self._available(self._counted())}
        return name in available and len(available) <= self._wish.replicas - self._wish.max_unavailable

    def _successor(self, name: str) -> Member | None:
        """Return the pod that has a lost pod's place now: its replacement, or that one's, if it was lost in turn."""
        counted = {member.name for member in self._counted()}
        for member in self._present():
            if member.replaces == name and member.name != name:
                return member if member.name in counted else self._successor(member.name)
        return None

    def _clear_ended(self) -> None:
        ended = [member for member in self._present() if member.ended]
        for member in ended:
            self._going[member.name] = f"{member.called} goes: it has ended with {member.status or 'no word'}"
        if ended:
            self._state = ended_again(self._state, self._now)
        if self._state.held_until is not None:
            self._times.append(self._state.held_until)

    def _note_moves(self) -> None:
        """Count time and progress anew when nodes begin to be drained, or end it: that is nothing a template did."""
        moving = tuple(member.name for member in self._counted() if member.moving)
        if moving != self._state.moving:
            self._state = replace(self._state, moving=moving, best=_NOTHING_YET, progressed_at=self._now)

    def _judge(self) -> None:
        """Note progress, and go back to the last good template if the new one fails or does not get on."""
        state, new = self._state, self._new()
        reached = (len(new), -len(self._old()), len(self._available(new)))
        best = tuple(map(max, state.best, reached))
        if best != state.best or self._to_be_awaited():
            state = replace(state, best=(best[0], best[1], best[2]), progressed_at=self._now)
        self._state = state
        is_rolling_out = bool(state.good) and state.target != state.good
        if self._wish.paused or not is_rolling_out:
            return
        failed = [member for member in self._members if member.revision == state.target and not member.leaving]
        why = health_gate(failed, state.target, state.good) or self._stalled(f"; back to {state.good}")
        if why:
            self._rolled_back = why
            state = replace(state, target=state.good, rolled_back=why, best=_NOTHING_YET, progressed_at=self._now)
            self._state = replace(state, setbacks=0, held_until=None)

    def _stalled(self, what_now: str) -> str:
        """Return that the progress deadline is over, and what the rollout waits for; "" if it is not."""
        since, limit = self._state.progressed_at, self._wish.deadline
        if since is None or limit is None or self._is_complete():
            return ""
        if since + limit > self._now:
            self._times.append(since + limit)
            return ""
        new = self._new()
        lacking = next((member for member in new if member not in self._available(new)), None)
        said = f"; {lacking.called}: {lacking.message or lacking.status or 'not ready'}" if lacking is not None else ""
        available = f"{len(self._available(new))} of {self._wish.replicas} pods available"
        return f"{self._state.target} made no progress in {go_duration(limit)}: {available}{said}{what_now}"

    def _is_complete(self) -> bool:
        new = self._new()
        return not self._old() and len(new) == self._wish.replicas == len(self._available(new))

    def _create_and_withdraw(self) -> int:
        """Choose the pods that go, and return how many are to be made."""
        if self._wish.paused:
            return self._scale_only()
        new = self._new()
        for member in leaving_order(new)[: max(0, len(new) - self._wish.replicas)]:
            self._going[member.name] = f"{member.called} goes: {self._wish.replicas} are asked for"
        return self._recreate() if self._wish.recreate else self._roll()

    def _recreate(self) -> int:
        """Make pods of a new template only after all others are gone."""
        for member in self._old():
            self._going[member.name] = self._outdated(member)
        return self._allowed(self._wish.replicas - len(self._new()))

    def _to_be_awaited(self) -> list[Member]:
        """Return the pods that have to be gone before one of a new template is made, if none may run beside another."""
        return [
            member
            for member in self._members
            if self._wish.recreate
            and (member.leaving or member.name in self._going or self._is_outdated(member))
            and not (member.ended or self._is_written_off(member))
        ]

    def _is_outdated(self, member: Member) -> bool:
        return member.revision != self._state.target and not self._wish.paused

    def _roll(self) -> int:
        wish, counted, new, old = self._wish, self._counted(), self._new(), self._old()
        create = self._allowed(min(wish.replicas - len(new), wish.replicas + wish.max_surge - len(counted)))
        least = wish.replicas - wish.max_unavailable
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
        """Follow the number of a rollout that is paused, and nothing else of it."""
        wish, counted = self._wish, self._counted()
        if not self._state.target:
            return 0
        is_between = bool(self._new()) and bool(self._old())
        staying = [member for member in counted if not member.moving]
        most = wish.replicas + (wish.max_surge if is_between or len(staying) < len(counted) else 0)
        for member in leaving_order(counted)[: max(0, len(counted) - most)]:
            self._going[member.name] = f"{member.called} goes: {wish.replicas} are asked for"
        self._move_within(0 if wish.recreate else wish.replicas - wish.max_unavailable)
        return self._allowed(min(wish.replicas - len(staying), most - len(counted)))

    def _move_within(self, least: int) -> None:
        """Have pods of nodes that are drained go, as long as so many others are available."""
        for member in leaving_order(each for each in self._counted() if each.moving):
            available = [one.name for one in self._available(self._counted())]
            if member.name not in available or len(available) > least:
                self._going[member.name] = self._outdated(member)

    def _allowed(self, number: int) -> int:
        """Return how many of so many pods may be made now."""
        state = self._state
        if state.held_until is not None and self._now < state.held_until:
            return 0
        if self._to_be_awaited():
            return 0
        is_new = bool(state.good) and state.target != state.good
        in_trouble = is_new and any(health(member) != "fine" for member in self._new())
        return 0 if in_trouble else max(0, number)

    def _outdated(self, member: Member) -> str:
        if member.moving:
            return f"{member.called} goes: {member.node} is being drained"
        return f"{member.called} goes: it is of {member.revision}, and {self._state.target} is rolled out"

    def _mark_good(self, create: int) -> None:
        if create or not self._wish.replicas or not self._is_complete():
            return
        self._state = replace(self._state, setbacks=0, held_until=None)
        if self._state.good != self._state.target:
            self._became_good = self._state.target
            self._state = replace(self._state, good=self._state.target)

    def _named(self, number: int) -> tuple[Creation, ...]:
        """Return what is to be made; first of all, pods in the place of those that are written off."""
        paused_on_good = self._wish.paused and self._state.good
        revision = self._state.good if paused_on_good else self._state.target
        lost = [name for name in sorted(self._off - set(self._going)) if self._successor(name) is None]
        return tuple(Creation(revision, lost[index] if index < len(lost) else "") for index in range(number))

    def _says(self, counts: Counts) -> str:
        wish, state = self._wish, self._state
        numbers = f"{counts.updated} of {wish.replicas} pods have it, {counts.available} are available"
        if self._is_complete() or (not wish.replicas and not counts.replicas):
            done = f"{state.target} is rolled out"
            return f"{done}; {state.rolled_back}" if state.rolled_back else done
        if wish.paused:
            return f"{state.target or wish.revision} is paused: {numbers}"
        if state.rolled_back:
            return f"{state.rolled_back}: {numbers}"
        if awaited := self._to_be_awaited():
            return f"{state.target} waits until {awaited[0].called} is gone: {numbers}"
        return self._stalled("") or f"{state.target} is being rolled out: {numbers}"
