"""The judgement: compares the containers' notes with the engine's answers about their pods. No I/O."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qa.chaos.notes import Note
from qa.chaos.record import PodRecord

KILLED = 137
_EXIT = re.compile(r"(-?\d+)(?: \((.*)\))?")


@dataclass(frozen=True)
class Violation:
    """One violation: the broken rule, the pod, and the evidence."""

    rule: str
    pod: str
    seen: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.pod}: {self.seen}"


@dataclass
class Verdict:
    """The findings."""

    violations: list[Violation] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def blame(self, rule: str, record: PodRecord, seen: str) -> None:
        self.violations.append(Violation(rule, f"{record.name} ({record.uid})", seen))


@dataclass(frozen=True)
class Instance:
    """One run of a container, by the notes that it wrote."""

    container: str
    id: str
    sandbox: str
    restart: int
    began: int
    notes: tuple[Note, ...]

    @property
    def code(self) -> int | None:
        """The exit code in its notes; None if it was killed before it wrote one."""
        return next((int(note.said) for note in self.notes if note.what == "END"), None)

    @property
    def was_told(self) -> bool:
        """Whether it received SIGTERM."""
        return any(note.what == "TERM" for note in self.notes)

    def is_true(self, code: int, killed: Iterable[str]) -> bool:
        """Return whether it can have exited with this code. `killed` are the instances that chaos sent SIGKILL.

        After it has noted its end, it may still be killed before it exits, by a runtime's stop or by chaos.
        """
        if self.code is None:
            return code == KILLED
        return code == self.code or (code == KILLED and (self.was_told or self.id in killed))


def check(notes: Sequence[Note], records: Iterable[PodRecord], killed: Iterable[str] = ()) -> Verdict:
    """Judge pods that have ended or no longer change.

    `killed` has the ids of the instances to which chaos itself sent SIGKILL.
    """
    verdict, killed = Verdict(), frozenset(killed)
    by_uid: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        by_uid[note.uid].append(note)
    for record in records:
        instances = instances_of(by_uid.pop(record.uid, []))
        verdict.figures["pods"] += 1
        verdict.figures["instances"] += sum(map(len, instances.values()))
        _check_overlaps(verdict, record, instances)
        _check_never(verdict, record, instances)
        _check_order(verdict, record, instances)
        if record.shown and not record.is_own:
            verdict.blame("its own status", record, f"what is shown is the pod {record.shown_uid}")
        elif record.shown and not record.terminated:
            _check_counts(verdict, record, instances)
            _check_exits(verdict, record, instances, killed)
            _check_pre_stop(verdict, record, instances)
    for uid, strange in by_uid.items():
        verdict.violations.append(Violation("known pods", uid, f"{len(strange)} notes of a pod that nobody applied"))
    return verdict


def instances_of(notes: Iterable[Note]) -> dict[str, list[Instance]]:
    """Return the instances of one pod by container, oldest first: one for each START."""
    grouped: dict[tuple[str, str], list[Note]] = defaultdict(list)
    for note in notes:
        grouped[note.container, note.id].append(note)
    found: dict[str, list[Instance]] = defaultdict(list)
    for (container, id_), all_notes in grouped.items():
        for start in (note for note in all_notes if note.what == "START"):
            found[container].append(Instance(container, id_, start.sandbox, start.restart, start.at, tuple(all_notes)))
    for instances in found.values():
        instances.sort(key=lambda instance: instance.began)
    return dict(found)


def _check_overlaps(verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]]) -> None:
    for container, all_ in instances.items():
        for instance in all_:
            held = [note for note in instance.notes if (note.what, note.said) == ("START", "held")]
            if held:
                verdict.blame("no overlap", record, f"{container} started while another instance of it was alive")
        for earlier, later in itertools.pairwise(all_):
            last = max(note.at for note in earlier.notes)
            if last > later.began:
                verdict.blame(
                    "no overlap", record, f"{container} wrote as restart {earlier.restart} after its successor"
                )


def _check_never(verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]]) -> None:
    if not record.never:
        return
    verdict.figures["Never pods"] += 1
    for container, all_ in instances.items():
        if len(all_) > 1:
            verdict.blame("Never at most once", record, f"{container} started {len(all_)} times")


def _check_order(verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]]) -> None:
    """Check that init containers exit with 0 before their successors start in the same sandbox, and run there once."""
    order = [*record.order]
    places = {name: place for place, name in enumerate(order)}
    completed: dict[tuple[str, str], int] = {}
    began: dict[tuple[str, str], int] = {}
    last: dict[tuple[str, str], Instance] = {}
    for instance in sorted((each for all_ in instances.values() for each in all_), key=lambda each: each.began):
        verdict.figures["starts in order"] += 1
        before = order[: places.get(instance.container, len(order))]
        for name in before:
            done = completed if name in record.inits else began
            if done.get((instance.sandbox, name), instance.began) >= instance.began:
                what = "had completed" if name in record.inits else "had started"
                verdict.blame("init order", record, f"{instance.container} started before {name} {what}")
        key = (instance.sandbox, instance.container)
        if key in completed and record.terminated:
            # The terminated workflow's record of the pod's exits is lost; it may have recorded them as unknown.
            verdict.figures["init containers run again in a terminated pod"] += 1
        elif key in completed:
            _check_again(verdict, record, last[key])
        began.setdefault(key, instance.began)
        if instance.container in record.inits and instance.code == 0:
            completed[key] = next(note.at for note in instance.notes if note.what == "END")
            last[key] = instance


def _check_again(verdict: Verdict, record: PodRecord, completed: Instance) -> None:
    """Report an init container that ran again after this completed instance.

    That is allowed if the instance's end was recorded as unknown.
    """
    which = completed.container, completed.restart
    said, undone = record.exits_of(*which), record.undone_exits_of(*which)
    if not said and any(map(_is_unknown, undone)):
        verdict.figures["init containers run again, as only a run says that was reset"] += 1
    elif not any(map(_is_unknown, said)):
        verdict.blame("init order", record, f"{completed.container} ran again in a sandbox where it had completed")


def _check_counts(verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]]) -> None:
    """Check that the restart count is the number of the newest instance, and that no number was used twice."""
    for container, all_ in instances.items():
        told = record.status(container).get("restartCount", -1)
        numbers = Counter(instance.restart for instance in all_)
        verdict.figures["counts"] += 1
        twice = [number for number, count in numbers.items() if count > 1]
        for number in twice:
            verdict.blame("nothing twice", record, f"restart {number} of {container} started {numbers[number]} times")
        if max(numbers) > told:
            verdict.blame("true counts", record, f"{container} is said to have restarted {told} times: {_said(all_)}")
        silent = [number for number in range(told + 1) if number not in numbers]
        # Perhaps only a run that was reset recorded that the end of an earlier instance is unknown.
        excused = max(
            _without_process(exits) + _killed_unheard(exits, all_) for exits in record.exits_by_run(container)
        )
        verdict.figures["instances that noted nothing"] += len(silent)
        if len(silent) > excused:
            seen = f"{container} is said to have restarted {told} times, {excused} of which could note nothing: "
            verdict.blame("true counts", record, f"{seen}{_said(all_)}, and ended {list(record.exits(container))}")


def _said(instances: Sequence[Instance]) -> str:
    return f"it noted {len(instances)} starts, {[instance.restart for instance in instances]}"


def _killed_unheard(exits: Sequence[str], instances: Sequence[Instance]) -> int:
    """Return how many instances are reported as killed, besides those whose notes show a start and no end."""
    told = sum(1 for exit_ in exits if exit_.startswith(f"{KILLED} ") and not _is_unknown(exit_))
    return max(0, told - sum(1 for instance in instances if instance.code is None))


def _without_process(exits: Sequence[str]) -> int:
    """Return how many instances may not have run: they are reported as not started, or with an unknown end."""
    return sum(1 for exit_ in exits if _is_unknown(exit_) or "StartError" in exit_)


def _is_unknown(exit_: str) -> bool:
    return "Unknown" in exit_


def _check_exits(
    verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]], killed: frozenset[str]
) -> None:
    """Check that each reported exit code is true, or unknown: by id in the status, by number in the history."""
    for container, all_ in instances.items():
        told = dict(_exits_by_id(record, container))
        for instance in all_:
            for exit_ in record.exits_of(container, instance.restart)[-1:]:
                told.setdefault(instance.id, exit_)
            _check_exit(verdict, record, instance, told.get(instance.id), killed)


def _check_exit(
    verdict: Verdict, record: PodRecord, instance: Instance, told: str | None, killed: frozenset[str]
) -> None:
    if told is None:
        verdict.figures["exits not looked up"] += 1
        return
    found = _EXIT.fullmatch(told)
    if _is_unknown(told):
        verdict.figures["exits said to be unknown"] += 1
        verdict.figures["exits said to be 255"] += told.startswith("255")
    elif found is not None and instance.is_true(int(found[1]), killed):
        verdict.figures["exits true"] += 1
    else:
        true = KILLED if instance.code is None else instance.code
        seen = f"restart {instance.restart} of {instance.container} exited with {true} and is said to be {told}"
        verdict.blame("true exits", record, seen)


def _exits_by_id(record: PodRecord, container: str) -> Iterator[tuple[str, str]]:
    status = record.status(container)
    for where in ("lastState", "state"):
        ended = status.get(where, {}).get("terminated")
        if ended:
            yield ended.get("containerID", "").partition("://")[2], f"{ended['exitCode']} ({ended.get('reason', '')})"


def _check_pre_stop(verdict: Verdict, record: PodRecord, instances: Mapping[str, Sequence[Instance]]) -> None:
    """Check that the preStop hook ran before each SIGTERM, or that an event reports that it did not."""
    for container in record.with_pre_stop:
        stopped = [each for each in instances.get(container, ()) if each.was_told]
        skipped = [each for each in stopped if not _had_its_hook(each)]
        verdict.figures["preStop hooks run"] += len(stopped) - len(skipped)
        events = [each for each in record.events if each["reason"] == "FailedPreStopHook"]
        told = sum(each.get("count", 1) for each in events if each.get("container", "") in ("", container))
        verdict.figures["preStop hooks said not to have run"] += min(told, len(skipped))
        if len(skipped) > told:
            verdict.blame("preStop", record, f"{len(skipped)} of {container} were stopped without; {told} events")


def _had_its_hook(instance: Instance) -> bool:
    term = next(note.at for note in instance.notes if note.what == "TERM")
    return any(note.what == "PRESTOP" and note.at < term for note in instance.notes)
