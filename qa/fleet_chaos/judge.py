"""The judgement: compares the notes of all nodes' containers with the pods that were asked for. Values in, values out.

All nodes share one machine here, with one clock. On every node, a container holds a lock named after its pod. So the
kernel detects a second copy, not only the times of two notes.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qa.chaos.notes import Note

Notes = Mapping[str, Sequence[Note]]
"""By the name of the pod, oldest first; a note's `uid` is ``uid@node``."""


@dataclass(frozen=True)
class Death:
    """The death of a node, and the time from which nothing of it ran. All times are nanoseconds since the boot."""

    node: str
    at: int


@dataclass(frozen=True)
class CutOff:
    """The period in which a node had no link, and the time of its reboot in between."""

    node: str
    began: int
    rebooted: int
    ended: int


@dataclass(frozen=True)
class Row:
    """The fleet's report on one pod: a line of `syncpod fleet get pods -o wide`."""

    name: str
    ready: str
    status: str
    restarts: int
    node: str


@dataclass(frozen=True)
class Asked:
    """The pods that must run in the end; no others may."""

    pods: Mapping[str, str]
    """Each pod with a node of its own, and the node."""
    copies: Mapping[str, int]
    """The number of copies of each Deployment."""
    container: Mapping[str, str]
    """The container's name in a Deployment's newest template."""
    never_more: frozenset[str] = frozenset()
    """Deployments that may never have more copies than were asked for."""

    def deployment_of(self, pod: str) -> str:
        """The Deployment that a pod belongs to; "" if it belongs to none."""
        owner, _, number = pod.rpartition("-")
        return owner if owner in self.copies and number.isdecimal() else ""


@dataclass(frozen=True)
class Instance:
    """One run of a container."""

    pod: str
    uid: str
    node: str
    container: str
    began: int
    ended: int | None
    """None if it is alive."""
    was_held: bool
    """Another live process had its lock when it began."""


@dataclass
class Verdict:
    """The broken rules, one sentence each, and counts for the report."""

    violations: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def blame(self, rule: str, seen: str) -> None:
        self.violations.append(f"{rule}: {seen}")


def judge(
    notes: Notes,
    asked: Asked,
    *,
    deaths: Sequence[Death],
    alive: frozenset[tuple[str, str]],
    sandboxes: Mapping[str, Counter[str]],
    cut_off: CutOff | None = None,
) -> Verdict:
    """Judge a fleet at rest.

    `alive` has the containers whose lock is held, by pod and name; `sandboxes` has, for each node, the number of live
    sandboxes of each pod in the runtime's list.
    """
    verdict = Verdict()
    instances = [each for pod, lines in notes.items() for each in instances_of(pod, lines, deaths, alive, verdict)]
    verdict.figures |= Counter(
        {"pods that ever ran": len(notes), "containers started": len(instances), "of them alive": len(alive)}
    )
    _one_at_a_time(verdict, instances)
    _one_of_each_name(verdict, instances, asked)
    _never_more(verdict, instances, asked)
    _nothing_lost(verdict, asked, alive)
    _nothing_else(verdict, asked, alive, sandboxes)
    _init_first(verdict, instances)
    if cut_off is not None:
        _lived_on(verdict, instances, asked, cut_off)
    return verdict


def instances_of(
    pod: str, notes: Sequence[Note], deaths: Sequence[Death], alive: frozenset[tuple[str, str]], verdict: Verdict
) -> Iterator[Instance]:
    """A pod's instances with the times of their ends.

    The end is the noted one, else the death of the node. An instance without either that no longer lives counts in the
    verdict's figures, and its end is taken to be its start.
    """
    ends = {note.id: note.at for note in notes if note.what == "END"}
    starts = [note for note in notes if note.what == "START"]
    last = {note.container: note.id for note in starts}
    for note in starts:
        uid, _, node = note.uid.partition("@")
        ended = ends.get(note.id)
        if ended is None:
            ended = min((death.at for death in deaths if death.node == node and death.at >= note.at), default=None)
        if ended is None and not (last[note.container] == note.id and (pod, note.container) in alive):
            verdict.figures["instances that ended without a word"] += 1
            ended = note.at
        yield Instance(pod, uid, node, note.container, note.at, ended, note.said == "held")


def _one_at_a_time(verdict: Verdict, instances: Iterable[Instance]) -> None:
    by_name: dict[tuple[str, str], list[Instance]] = defaultdict(list)
    for each in instances:
        by_name[each.pod, each.container].append(each)
        if each.was_held:
            verdict.blame("two live instances", f"{_called(each)} began while another one held its lock")
    for runs in by_name.values():
        runs.sort(key=lambda each: each.began)
        for before, after in itertools.pairwise(runs):
            if before.ended is None or before.ended > after.began:
                verdict.blame("two at once", f"{_called(before)} ran when {_called(after)} began")


def _one_of_each_name(verdict: Verdict, instances: Iterable[Instance], asked: Asked) -> None:
    """Blame pod names with several UIDs or nodes: even a Deployment gives a new copy another name."""
    seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for each in instances:
        seen[each.pod].add((each.uid, each.node))
    for pod, found in seen.items():
        if len({node for _, node in found}) > 1:
            verdict.blame("twins", f"{pod} ran on {', '.join(sorted(node for _, node in found))}")
        elif len(found) > 1:
            verdict.blame("made anew", f"{pod} had the UIDs {', '.join(sorted(uid for uid, _ in found))}")
        elif pod in asked.pods and {node for _, node in found} != {asked.pods[pod]}:
            verdict.blame("twins", f"{pod} is for {asked.pods[pod]}, and ran elsewhere")


def _never_more(verdict: Verdict, instances: Iterable[Instance], asked: Asked) -> None:
    for deployment in asked.never_more:
        moments: list[tuple[int, int]] = []
        for each in instances:
            if asked.deployment_of(each.pod) == deployment:
                moments += [(each.began, 1), *([(each.ended, -1)] if each.ended is not None else [])]
        live = most = 0
        for _, change in sorted(moments):  # at the same moment, ends come first
            live += change
            most = max(most, live)
        verdict.figures[f"most copies of {deployment} at once"] = most
        if most > asked.copies[deployment]:
            verdict.blame(
                "too many copies", f"{most} of {deployment} at once; {asked.copies[deployment]} are asked for"
            )


def _nothing_lost(verdict: Verdict, asked: Asked, alive: frozenset[tuple[str, str]]) -> None:
    for pod in asked.pods:
        if (pod, "web") not in alive:
            verdict.blame("lost", f"{pod}: its container web does not run")
    for deployment, number in asked.copies.items():
        copies = [
            pod for pod, name in alive if (asked.deployment_of(pod), name) == (deployment, asked.container[deployment])
        ]
        if len(copies) < number:
            verdict.blame(
                "lost", f"{deployment}: {len(copies)} of {number} copies of {asked.container[deployment]} run"
            )
        if len(copies) > number:
            verdict.blame("doubled", f"{deployment}: {len(copies)} copies run, and {number} are asked for: {copies}")


def _nothing_else(
    verdict: Verdict, asked: Asked, alive: frozenset[tuple[str, str]], sandboxes: Mapping[str, Counter[str]]
) -> None:
    for pod, name in sorted(alive):
        deployment = asked.deployment_of(pod)
        if pod not in asked.pods and asked.container.get(deployment) != name:
            verdict.blame("left over", f"{pod}: {name} runs, and nobody asks for it")
    everywhere: Counter[str] = sum(sandboxes.values(), Counter())
    running = {pod for pod, _ in alive}
    for pod, number in everywhere.items():
        if number > 1:
            where = ", ".join(node for node, listed in sandboxes.items() if pod in listed)
            verdict.blame("doubled", f"{pod} has {number} live sandboxes, on {where}")
        if pod not in running:
            verdict.blame("left over", f"{pod} has a live sandbox, and nothing runs in it")
    for pod in sorted(running - everywhere.keys()):
        verdict.blame("left over", f"{pod} runs, and no runtime lists its sandbox")


def _init_first(verdict: Verdict, instances: Iterable[Instance]) -> None:
    """Blame a container that began before its pod's init container had ended."""
    first: dict[str, Instance] = {}
    for each in sorted(instances, key=lambda one: one.began):
        if each.container == "first":
            first.setdefault(each.uid, each)
        elif each.pod.startswith("begins") and each.container == "web":
            before = first.get(each.uid)
            if before is None or before.ended is None or before.ended > each.began:
                verdict.blame("init order", f"{_called(each)} began before its init container had ended")


def _lived_on(verdict: Verdict, instances: Iterable[Instance], asked: Asked, cut: CutOff) -> None:
    """Blame a node that was cut off if a crash loop stopped, or a pod did not start after the node's reboot."""
    began: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in instances:
        if each.node == cut.node and cut.began < each.began < cut.ended:
            began[each.pod, each.container].append(each.began)
    for pod in (pod for pod, node in asked.pods.items() if node == cut.node):
        if not any(at > cut.rebooted for at in began[pod, "web"]):
            verdict.blame("not restarted offline", f"{pod} on {cut.node} did not run again before the link was back")
        verdict.figures["pods that a node without a link started after its reboot"] += 1
        if pod.startswith("loops"):
            verdict.figures["restarts of crash loops on a node without a link"] += len(began[pod, "fails"])
            if not began[pod, "fails"]:
                verdict.blame("crash loop stood still", f"{pod} on {cut.node} did not restart while it was cut off")


def answers(rows: Sequence[Row], asked: Asked, before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """One sentence for each error in the fleet's list of pods; an empty list if the pods run as asked.

    `before` and `after` have each pod's number of restarts by its notes, before and after the fleet answered.
    """
    wrong, listed = [], Counter(row.name for row in rows)
    wrong += [f"{name} is listed {number} times" for name, number in listed.items() if number > 1]
    wrong += [f"{name} is not listed" for name in asked.pods if name not in listed]
    for deployment, number in asked.copies.items():
        copies = [row for row in rows if asked.deployment_of(row.name) == deployment]
        if len(copies) != number:
            wrong.append(f"{deployment} has {len(copies)} pods of {number}")
    for row in rows:
        if row.name not in asked.pods and not asked.deployment_of(row.name):
            wrong.append(f"{row.name} is listed, and nobody asks for it")
            continue
        loops = row.name.startswith("loops")
        if row.node != asked.pods.get(row.name, row.node):
            wrong.append(f"{row.name} is said to be on {row.node}")
        if not (row.ready in ("1/2", "2/2") if loops else row.ready == "1/1"):
            wrong.append(f"{row.name} is {row.ready}, {row.status}")
        elif row.status not in (("Running", "CrashLoopBackOff", "Error") if loops else ("Running",)):
            wrong.append(f"{row.name} is {row.status}")
        if not before.get(row.name, -1) <= row.restarts <= after.get(row.name, -1):
            seen = f"{before.get(row.name)} to {after.get(row.name)}"
            wrong.append(f"{row.name} is said to have {row.restarts} restarts; its containers noted {seen}")
    return wrong


def restarts(notes: Notes, asked: Asked, deaths: Sequence[Death] = ()) -> dict[str, int]:
    """The number of restarts of each pod's containers by their notes, without its init container.

    If a pod had several UIDs or nodes, only the last one counts, as in the fleet's answer. A pod of a Deployment in
    `never_more` may also begin again with number 0 under the same UID, since a node that is cut off for long stops it
    and later starts it again: only the starts since then count. For other pods, all starts of the UID count, so a
    number that begins again is noticed as a difference.

    `deaths` adds restarts that nobody noted: a node that died while it started a container may have used up a number.
    """
    found = {}
    for pod, lines in notes.items():
        began = [note for note in lines if note.what == "START" and note.container != "first"]
        last = max(began, key=lambda note: note.at).uid if began else ""
        by_container: dict[str, list[Note]] = defaultdict(list)
        for note in sorted(began, key=lambda note: note.at):
            if note.uid == last:
                by_container[note.container].append(note)
        may_stop = asked.deployment_of(pod) in asked.never_more
        lives = [_last_life(runs) if may_stop else runs for runs in by_container.values()]
        found[pod] = sum(len(runs) - 1 + _unnoted(runs, deaths) for runs in lives)
    return found


def _unnoted(starts: Sequence[Note], deaths: Sequence[Death]) -> int:
    """How many restart numbers of one container are missing because its node died; each death explains at most one."""
    missing = 0
    for before, after in itertools.pairwise(starts):
        node = before.uid.partition("@")[2]
        between = sum(each.node == node and before.at < each.at < after.at for each in deaths)
        missing += min(between, max(0, after.restart - before.restart - 1))
    return missing


def _last_life(starts: Sequence[Note]) -> Sequence[Note]:
    """The starts of one container since its restart number last did not increase, oldest first."""
    anew = [at for at, (before, after) in enumerate(itertools.pairwise(starts), 1) if after.restart <= before.restart]
    return starts[anew[-1] if anew else 0 :]


def _called(each: Instance) -> str:
    return f"{each.container} of {each.pod} on {each.node} ({each.uid}, began {each.began})"
