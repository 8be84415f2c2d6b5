"""A small fleet of nodes that die and return, with a workload controlled only by the decisions under test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

from syncpod.fleet.members import Member
from syncpod.fleet.rollout import RolloutSpec, RolloutState, WorkloadDecision, decide

START = datetime(2026, 1, 1, tzinfo=UTC)
BAD = "bad"
"""A revision whose pods fail."""
DUD = "dud"
"""A revision whose pods never get ready."""


@dataclass
class World:
    """Nodes, the pods that really run on them, and the fleet's knowledge."""

    spec: RolloutSpec
    nodes: dict[str, bool] = field(default_factory=lambda: {"n1": True, "n2": True, "n3": True, "n4": True})
    """Whether each node can be reached."""
    now: datetime = START
    state: RolloutState = field(default_factory=RolloutState)
    members: dict[str, Member] = field(default_factory=dict)
    lost_since: dict[str, datetime] = field(default_factory=dict)
    decisions: list[WorkloadDecision] = field(default_factory=list)
    numbered: int = 0
    draining: set[str] = field(default_factory=set)
    stopped: dict[str, bool] = field(default_factory=dict)
    """Pods that their lost nodes have stopped, and whether the nodes have reported that."""

    def step(self, seconds: int = 5) -> WorkloadDecision:
        """Let time pass and nodes report, carry out the decision, and check the properties of every decision."""
        self.now += timedelta(seconds=seconds)
        self._report()
        self._stop_what_is_lost()
        before = list(self.members.values())
        decision = self.decide(before)
        assert decision == self.decide(reversed(before))
        self._check(before, decision)
        self.state = decision.state
        for withdrawal in decision.withdraw:
            self.members[withdrawal.name] = replace(self.members[withdrawal.name], leaving=True)
        for creation in decision.create:
            self.numbered = creation.number
            name = f"web-{creation.number}"
            self.members[name] = Member(name, creation.revision, self.now, replaces=creation.replaces)
        self.decisions.append(decision)
        return decision

    def decide(self, members: Iterable[Member]) -> WorkloadDecision:
        return decide(self.spec, members, self.state, self.now, count(self.numbered + 1))

    def settle(self, most: int = 400) -> None:
        """Step until there is nothing to do and time changes nothing."""
        for _ in range(most):
            decision = self.step()
            pending = any(self._changes(member) for member in self.members.values())
            if not (decision.create or decision.withdraw or decision.look_again or pending):
                return
        raise AssertionError(f"does not settle: {self.decisions[-1]}")

    def settle_whatever(self, steps: int = 200) -> None:
        for _ in range(steps):
            self.step()

    def lose(self, name: str) -> None:
        self.nodes[name] = False
        self.lost_since[name] = self.now

    def bring_back(self, name: str) -> None:
        self.nodes[name] = True
        self.lost_since.pop(name, None)

    def counted(self) -> list[Member]:
        return [
            one
            for one in self.members.values()
            if not one.leaving and not one.ended and one.name not in self.state.written_off
        ]

    def _changes(self, member: Member) -> bool:
        """Return whether a pod's state changes by itself."""
        if not member.node:
            return any(is_reached and name not in self.draining for name, is_reached in self.nodes.items())
        starts = member.ready_since is None and member.revision not in (BAD, DUD)
        return self.nodes[member.node] and (member.leaving or starts)

    def _report(self) -> None:
        reached = sorted(name for name, is_reached in self.nodes.items() if is_reached and name not in self.draining)
        for name, member in self.members.items():
            self.members[name] = replace(member, moving=member.node in self.draining)
        for member in list(self.members.values()):
            if not member.node:
                if member.leaving:
                    del self.members[member.name]
                elif reached:
                    node = min(reached, key=lambda name: (self._on(name), name))
                    self.members[member.name] = replace(member, node=node, status="ContainerCreating")
                continue
            if not self.nodes[member.node]:
                since = self.lost_since[member.node]
                self.members[member.name] = replace(member, presence="Unknown", unknown_since=since)
                continue
            member = replace(member, presence="Ready", unknown_since=None)
            if member.name in self.stopped and not member.leaving:
                # A node that is back starts a pod again only after a request of the fleet.
                if not self.stopped[member.name]:
                    self.stopped[member.name] = True
                    self.members[member.name] = replace(member, ready_since=None, status="Pending")
                    continue
                del self.stopped[member.name]
            if member.leaving:
                del self.members[member.name]
                continue
            if member.revision == BAD:
                member = replace(member, status="CrashLoopBackOff", message="back-off 10s restarting failed container")
            elif (
                member.ready_since is None
                and member.revision != DUD
                and self.now - member.created > timedelta(seconds=7)
            ):
                member = replace(member, ready_since=self.now, status="Running")
            elif member.revision == DUD:
                member = replace(member, status="Running")
            self.members[member.name] = member

    def _stop_what_is_lost(self) -> None:
        rule = self.spec.when_lost
        for member in self.members.values():
            since = self.lost_since.get(member.node)
            if rule.action == "stop-after" and since is not None and self.now >= since + rule.after + self.spec.grace:
                self.stopped.setdefault(member.name, False)

    def running(self) -> list[str]:
        """Return the pods that really run, including those on nodes that the fleet cannot reach."""
        return [one.name for one in self.members.values() if one.node and one.name not in self.stopped]

    def _on(self, node: str) -> int:
        return sum(member.node == node for member in self.members.values())

    def _check(self, before: list[Member], decision: WorkloadDecision) -> None:
        gone = {withdrawal.name for withdrawal in decision.withdraw}
        off = set(decision.state.written_off)
        counted = [one for one in before if not one.leaving and not one.ended and one.name not in off]
        stays = [one for one in counted if one.name not in gone]
        if decision.create:
            assert len(stays) + len(decision.create) <= self.spec.replicas + self.spec.max_surge
        if not self.spec.recreate:
            was = sum(one.is_available(self.now, self.spec.min_ready) for one in counted)
            still = sum(one.is_available(self.now, self.spec.min_ready) for one in stays)
            assert still >= min(was, self.spec.replicas - self.spec.max_unavailable)
        assert len(gone) == len(decision.withdraw) and not any(self.members[name].leaving for name in gone)
        assert all(withdrawal.why.startswith(f"{withdrawal.name}") for withdrawal in decision.withdraw)
        taken = [creation.replaces for creation in decision.create if creation.replaces]
        assert len(taken) == len(set(taken)) and set(taken) <= off
