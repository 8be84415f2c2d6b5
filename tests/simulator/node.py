"""One node: its steps one at a time by their fences, its agent's PLEG and back-off queue, and the deaths of its worker.

The model of `activities.step`, its fences and `syncpod.agent.pleg`, with what can go wrong between a try and
the server: a result that comes late or never, a try that stalls, a worker that is killed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.simulator.attempt import Attempt, Body, Ill, Interrupted, PodFault, in_order
from tests.simulator.clock import Clock, Due
from tests.simulator.runtime import CriError, Runtime
from tests.simulator.server import Activity, Server, payload
from tests.simulator.steps import NOT_READY, Steps, View, instance_of

KILLS = ("kill_container", "kill_pod", "remove_container")
STEP_PATIENCE = 2.0
PAIR_SECONDS = 1.0
EXIT_SEEN, RELIST = 0.05, 1.0
LEFT_SECONDS = 0.05
FACTS = {"name": "node-1", "runtime": "simulated", "hostIps": ["192.0.2.1"], "searchAttributes": True}


class Node:
    """The node. What it is to suffer is put into `ills` and `signals`, first come first served."""

    def __init__(self, clock: Clock, runtime: Runtime) -> None:
        self.clock, self.runtime = clock, runtime
        self.server: Server
        self.steps = Steps(runtime, self._next_seq)
        self.steps.only_waits = self._create_ahead
        self.ills: list[Ill] = []
        """For the next tries, of whatever step."""
        self.signals: list[Ill] = []
        """For the next signals of the PLEG."""
        self.expirations: list[Ill] = []
        """For the next signals of the back-off queue."""
        self.suffered: Callable[[Ill], None] = lambda _: None
        self.up = True
        self._boot, self._counter = 1, 0
        self._attempts: list[Attempt] = []
        self._holders: dict[tuple[str, str], Attempt] = {}
        self._queues: dict[tuple[str, str], list[Attempt]] = {}
        self._newest: dict[tuple[str, str, str], tuple[tuple[int, int], float, int]] = {}
        """The claim seen last: fence and number, when it was scheduled, and which fence it follows."""
        self._pods: dict[str, _Pod] = {}
        self._pairs: dict[tuple[str, str, int], _Pair] = {}
        self._armed: dict[str, Due] = {}
        self._refused: set[str] = set()
        """UIDs of pods that were made no sandbox since the network is not ready."""
        self._left: list[str] = []
        """UIDs of pods whose remains the node is to remove."""

    # --- tries --------------------------------------------------------------------------------------------------------

    def start_try(self, activity: Activity) -> None:
        """Begin a try, if there is a worker; without one it is never heard of."""
        if not self.up:
            self.server.silent(activity, activity.attempt)
            return
        attempt = Attempt(self.clock, activity, self._ended)
        self._attempts.append(attempt)
        if self.ills and activity.attempt == 1:
            attempt.ill = self.ills.pop(0)
            self.suffered(attempt.ill)
            if attempt.ill.kind == "by_hand":
                self.clock.after(attempt.ill.seconds, lambda: self._finish_by_hand(attempt))
        if attempt.followed:
            self._pair(attempt.request, attempt.fence).begin(attempt)
        if attempt.follows:
            self._follow(attempt)
            return
        self._claim(attempt)

    def _claim(self, attempt: Attempt) -> None:
        if self._is_stale(attempt):
            self._ended(attempt, {"stale": True})
            return
        uid, lane = self._turn(attempt)
        holder = self._holders.get((uid, lane))
        if holder is None:
            self._act(attempt)
        else:
            if holder.follows != attempt.fence:
                holder.interrupt(superseded=True)
            self._queues.setdefault((uid, lane), []).append(attempt)

    # --- steps that begin early ---------------------------------------------------------------------------------------

    def _pair(self, request: Mapping[str, Any], fence: int) -> _Pair:
        ref = request["ref"]
        return self._pairs.setdefault((str(ref["uid"]), str(ref["incarnation"]), fence), _Pair())

    def _follow(self, attempt: Attempt) -> None:
        """Have a start wait for the step that it follows; without it, the start is not begun."""
        pair = self._pair(attempt.request, attempt.follows)
        pair.second = attempt
        pair.waiting.append(attempt)
        if pair.first is None:
            self.clock.after(PAIR_SECONDS, lambda: self._decide_pair(pair) if pair.first is None else None)
        elif pair.end is not None:
            self.clock.after(0.0, lambda: self._decide_pair(pair))
        elif pair.first_only_waits:
            self._create_ahead(pair.first)

    def _decide_pair(self, pair: _Pair) -> None:
        """Let the start begin or not, as its first step has ended; or has not been seen in this worker."""
        waiting, pair.waiting = pair.waiting, []
        for attempt in waiting:
            if not attempt.alive:
                continue
            if attempt.interrupted:
                self._ended(attempt, {"stale": True})
                continue
            if attempt.number > 1 and pair.end == "again":
                self._ended(attempt, CriError("what comes before it is not certain yet"))
                continue
            try:
                home = self._home(pair, attempt)
            except CriError as error:
                self._ended(attempt, error)
                continue
            if home is not None or attempt.clears:
                attempt.request = {**attempt.request, "sandboxId": home}
                self._claim(attempt)
            else:
                self._ended(attempt, {"result": self._complete(attempt, {"outcome": "notBegun"})})

    def _home(self, pair: _Pair, attempt: Attempt) -> str | None:
        """Return the sandbox in which the start goes on, None if it must not."""
        if pair.first is not None and (home := self._home_after(pair.end, attempt)) is not None:
            return home
        is_in_doubt = attempt.number > 1 and (pair.first is None or attempt.request["sandboxId"] != "")
        return self._home_of_begun(attempt) if is_in_doubt else None

    def _home_of_begun(self, attempt: Attempt) -> str | None:
        """Return the sandbox if there is a trace of an earlier attempt of the start. Raises CriError."""
        if not self.runtime.up:
            raise CriError("connection refused")
        request = attempt.request
        view = self.runtime.list(request["ref"]["uid"])
        home = [s["id"] for s in view["sandboxes"] if s["incarnation"] == request["ref"]["incarnation"]]
        its = [self.runtime.containers[each["id"]] for each in view["containers"] if _is_its(each, request)]
        is_begun = any(each.state != "created" or each.told for each in its)
        attempt.clears = bool(its) and not is_begun
        return request["sandboxId"] or home[0] if home and is_begun else None

    def _create_ahead(self, first: Attempt) -> None:
        """Have the start that waits for this step create its container."""
        pair = self._pair(first.request, first.fence)
        pair.first_only_waits = pair.first is first
        for attempt in pair.waiting if pair.first is first else ():
            if attempt.alive and attempt.ahead is None and attempt.request["sandboxId"]:
                self.steps.create_ahead(attempt)

    def _drop_ahead(self, attempt: Attempt, then: Callable[[CriError | None], None]) -> None:
        """Remove what was created for a start whose turn does not come; say afterwards whether that has failed."""
        ahead = attempt.ahead
        if ahead is None or not attempt.alive:
            return
        if ahead.busy:
            ahead.waiting.append(lambda: self._drop_ahead(attempt, then))
            return

        def over(effect: Callable[[], None] = lambda: None, error: CriError | None = None) -> None:
            if attempt.alive:
                effect()
                attempt.ahead = None
                self.steps.hidden.discard(instance_of(attempt.request))
                then(error)

        if ahead.made is None:
            over()
            return
        try:
            seconds, effect = self.runtime.remove(ahead.made.id)
        except CriError as error:
            over(error=error)
        else:
            self.clock.after(seconds, lambda: over(effect))

    def _in_the_way(self, attempt: Attempt) -> list[Attempt]:
        """Return the starts that have created something beside the step before them, and have to let go now."""
        return [
            each
            for each in self._attempts
            if each is not attempt
            and each.ahead is not None
            and each.follows != attempt.fence
            and each.request["ref"]["uid"] == attempt.request["ref"]["uid"]
        ]

    @staticmethod
    def _home_after(end: Any, attempt: Attempt) -> str | None:
        """Return the sandbox if the step before the start has ended as its decision supposed."""
        request = attempt.request
        if not isinstance(end, dict) or end["outcome"] not in ("done", "adopted"):
            return None
        there = [c for c in end["status"]["containers"] if c["incarnation"] == request["ref"]["incarnation"]]
        if request["sandboxId"]:
            sandboxes = [s for s in end["status"]["sandboxes"] if s["incarnation"] == request["ref"]["incarnation"]]
            return str(request["sandboxId"]) if _has_come_to(request, sandboxes, there) else None
        if not all(_is_its(each, request) for each in there):
            return None
        return None if not there and request["container"] in end["missingImages"] else str(end["id"])

    def _first_ended(self, attempt: Attempt, outcome: Any) -> None:
        """Note how the first of two steps has ended, unless a further attempt of it has begun."""
        pair = self._pair(attempt.request, attempt.fence)
        if pair.first is not attempt:
            return
        match outcome:
            case {"result": result}:
                pair.end = "over" if attempt.asked else result
            case CriError():
                pair.end = "again"
            case _:
                pair.end = "over"
        self.clock.after(0.0, lambda: self._decide_pair(pair))

    def _hold(self, attempt: Attempt, report: Callable[[], None]) -> None:
        """Report a result together with the end of the last start, or after a moment; any other result at once."""
        pair, names = self._pair(attempt.request, attempt.fence), in_order(attempt.request["pod"])
        is_last = len(names) == 1 if pair.second is None else pair.second.request["container"] == names[-1]
        if pair.is_over or attempt.interrupted or not is_last:
            report()
            return
        due = self.clock.after(PAIR_SECONDS, lambda: pair.release())
        pair.held = _Held(attempt.activity, report, due)

    def cancel_try(self, activity: Activity) -> None:
        """Have a try hear with its next heartbeat that it is cancelled."""
        for pair in self._pairs.values():
            if pair.held is not None and pair.held.activity is activity:
                pair.release()
                return
        attempt = next((a for a in self._attempts if a.activity is activity and a.number == activity.attempt), None)
        if attempt is not None:
            self.clock.after(1.0 - attempt.waited % 1.0, lambda: self._let_go(attempt))

    def _let_go(self, attempt: Attempt) -> None:
        queue = self._queues.get(self._turn(attempt), [])
        attempt.interrupt()
        waiting = self._pair(attempt.request, attempt.follows).waiting if attempt.follows else []
        if attempt.alive and attempt in waiting:
            waiting.remove(attempt)
            self._ended(attempt, {"result": self._complete(attempt, {"outcome": "cancelled"})})
            return
        if attempt in queue and attempt.alive:
            queue.remove(attempt)
            self._ended(attempt, {"cancelled": True})

    def _act(self, attempt: Attempt) -> None:
        if not attempt.alive:
            return
        key = self._turn(attempt)
        self._holders[key] = attempt
        if not key[1] and (others := self._in_the_way(attempt)):
            for each in others:
                self._supersede(each)
            self.clock.after(0.005, lambda: self._act(attempt))
            return
        if not key[1]:
            self._pod(key[0]).step_began = self.clock.now
        ill = attempt.ill
        if ill is not None and ill.kind == "stalls":
            attempt.stall(ill.seconds)
            self.server.silent(attempt.activity, attempt.number)
        if ill is not None and ill.kind == "unreachable":
            self._ended(attempt, CriError("connection refused"))
            return
        attempt.begin(self._whole(attempt))

    def _whole(self, attempt: Attempt) -> Body:
        """Run a step's body and read the pod after it; what it returns says how the try ended."""
        uid, lane = self._turn(attempt)
        try:
            try:
                result = yield from self.steps.body(attempt)
            except PodFault as fault:
                detail: dict[str, Any] = {"message": str(fault)}
                if not lane and fault.fault not in ("ExceededGracePeriod", "FailedKillPod"):
                    detail["status"] = yield from self.steps.read(uid)
                return {"fault": fault.fault, "detail": self._complete(attempt, detail)}
            if not lane and "status" not in result and not attempt.clears:
                result["status"] = yield from self.steps.read(uid)
            return {"result": self._complete(attempt, result)}
        except Interrupted:
            if attempt.superseded or not attempt.activity.cancelling:
                return {"stale": True}
            outcome: dict[str, Any] = {"outcome": "stopping" if attempt.activity.name in KILLS else "cancelled"}
            if not lane:
                try:
                    outcome["status"] = yield from self.steps.read(uid)
                except CriError:
                    return {"cancelled": True}
            return {"result": self._complete(attempt, outcome)}

    def _complete(self, attempt: Attempt, result: dict[str, Any]) -> dict[str, Any]:
        if "status" in result:
            self.steps.returned(attempt, result["status"])
            self._returned(result["status"])
        return {**result, "node": FACTS, "attempt": attempt.number}

    def _supersede(self, attempt: Attempt) -> None:
        """Have a start let go that has created something ahead, wherever it waits."""
        attempt.interrupt(superseded=True)
        waiting = self._pair(attempt.request, attempt.follows).waiting
        if attempt in waiting:
            waiting.remove(attempt)
            self._ended(attempt, {"stale": True})

    def _ended(self, attempt: Attempt, outcome: Any) -> None:
        if attempt.ahead is not None:
            self._drop_ahead(attempt, lambda error: self._ended(attempt, outcome if error is None else error))
            return
        self._attempts.remove(attempt)
        key = self._turn(attempt)
        if self._holders.get(key) is attempt:
            del self._holders[key]
            self._next(key)
        activity, number, server = attempt.activity, attempt.number, self.server
        if attempt.followed:
            self._first_ended(attempt, outcome)
        if attempt.follows:
            pair = self._pair(attempt.request, attempt.follows)
            pair.is_over = True
            self.clock.after(0.0, pair.release)
        match outcome:
            case {"result": result} if attempt.followed:
                report = partial(server.completed, activity, number, payload(result))
                self._hold(attempt, lambda: self._report(attempt, report))
            case {"result": result}:
                self._report(attempt, lambda: server.completed(activity, number, payload(result)))
            case {"fault": fault, "detail": detail}:
                if fault == NOT_READY:
                    self._refused.add(key[0])
                self._report(attempt, lambda: server.failed(activity, number, fault, detail["message"], detail))
            case {"cancelled": _}:
                self._report(attempt, lambda: server.cancelled(activity, number))
            case {"stale": _}:
                self._report(attempt, lambda: self._stale(attempt))
            case _:
                kind = type(outcome).__name__
                self._report(attempt, lambda: server.failed(activity, number, kind, str(outcome), retryable=True))
        if not key[1]:
            self.clock.after(0.0, lambda: self._settle(key[0]))

    def _stale(self, attempt: Attempt) -> None:
        self.server.failed(attempt.activity, attempt.number, "StaleFence", "a newer step has come")

    def _report(self, attempt: Attempt, report: Callable[[], Any]) -> None:
        ill = attempt.ill
        if ill is not None and ill.kind == "lost":
            self.server.silent(attempt.activity, attempt.number)
            return
        boot = self._boot
        seconds = ill.seconds if ill is not None and ill.kind == "late" else 0.001
        self.clock.after(seconds, lambda: report() if self._boot == boot and self.up else None)

    def _finish_by_hand(self, attempt: Attempt) -> None:
        """Have an operator complete the activity; its try hears of that with its next heartbeat."""
        if self.server.completed(attempt.activity, attempt.number, payload("by hand")):
            self.clock.after(1.0, attempt.interrupt)

    def _next(self, key: tuple[str, str]) -> None:
        queue = self._queues.get(key, [])
        while queue:
            attempt = queue.pop(0)
            if not attempt.alive:
                continue
            if self._is_stale(attempt):
                self._ended(attempt, {"stale": True})
                continue
            # It has the turn from now on: whoever comes in between waits for it.
            self._holders[key] = attempt
            self.clock.after(0.0, partial(self._act, attempt))
            return

    def _turn(self, attempt: Attempt) -> tuple[str, str]:
        lane = f"pull {attempt.request['container']}" if attempt.activity.name == "pull_image" else ""
        return str(attempt.request["ref"]["uid"]), lane

    def _is_stale(self, attempt: Attempt) -> bool:
        uid, lane = self._turn(attempt)
        key = (uid, str(attempt.request["ref"]["incarnation"]), lane)
        claim, scheduled = (attempt.fence, attempt.number), attempt.activity.scheduled
        newest = self._newest.get(key, (claim, scheduled, 0))
        if newest[2] == attempt.fence:
            return False
        if claim < newest[0] and scheduled <= newest[1]:
            return True
        self._newest[key] = (claim, scheduled, attempt.follows)
        return False

    # --- what workflows leave -----------------------------------------------------------------------------------------

    def leave(self, uid: str) -> None:
        """Have the node remove what a pod's workflow has left when it ended: at once, or when there is a worker."""
        self._left.append(uid)
        self.clock.after(LEFT_SECONDS, self._remove_left)

    def _remove_left(self) -> None:
        if not self.up or not self._left:
            return
        uid = self._left[0]
        container = next((each.id for each in self.runtime.containers.values() if each.uid == uid), None)
        sandbox = next((each.id for each in self.runtime.sandboxes.values() if each.uid == uid), None)
        with contextlib.suppress(CriError):
            if container is not None:
                self.runtime.remove(container)[1]()
            elif sandbox is not None:
                self.runtime.remove_sandbox(sandbox)[1]()
            else:
                self._left.pop(0)
        self.clock.after(LEFT_SECONDS, self._remove_left)

    # --- deaths -------------------------------------------------------------------------------------------------------

    def kill_worker(self, seconds: float) -> None:
        """Kill the worker with all that it was doing; another one starts after a while."""
        self.up = False
        self.server.worker_stopped()
        for attempt in self._attempts:
            attempt.alive = False
            self.server.silent(attempt.activity, attempt.number)
        self._attempts.clear()
        self._holders.clear()
        self._queues.clear()
        self._newest.clear()
        for pair in self._pairs.values():
            pair.forget()
        self._pairs.clear()
        self.steps.worker_died()
        for due in self._armed.values():
            due.cancel()
        self._armed.clear()
        self._refused.clear()
        self._pods = {uid: _Pod() for uid in self._pods}
        self._boot += 1
        self._counter = 0
        boot = self._boot
        self.clock.after(seconds, lambda: self._begin_worker(boot))

    def _begin_worker(self, boot: int) -> None:
        if boot != self._boot:
            return
        self.up = True
        for activity in self.server.activities:
            self.server.fail_elder(activity)
        self.server.worker_started()
        self.clock.after(LEFT_SECONDS, self._remove_left)
        for uid, pod in self._pods.items():
            pod.owed.append({"type": "Boot", "id": uid})
            if self.runtime.up and self.runtime.network:
                pod.owed.append({"type": "RuntimeReady", "id": uid})
            self._look(uid)

    # --- the agent: readiness -----------------------------------------------------------------------------------------

    def network_ready(self) -> None:
        """Wake the pods that were refused, as who asks the runtime each second sees that its network is ready."""
        refused, self._refused = self._refused, set()
        for uid in refused:
            self._pod(uid).owed.append({"type": "RuntimeReady", "id": uid})
            self.clock.after(RELIST, partial(self._look, uid))

    # --- the agent: PLEG ----------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Hear that the runtime has changed: looked at a moment later, as a pidfd or the next relist has it."""
        for uid in {s.uid for s in self.runtime.sandboxes.values()} | {c.uid for c in self.runtime.containers.values()}:
            self._pod(uid)
        for uid, pod in self._pods.items():
            if pod.look is None:
                # An exit is seen at once by its pidfd, all else by a relist.
                delay = EXIT_SEEN if self._counter % 4 else RELIST
                pod.look = self.clock.after(delay, lambda uid=uid: self._look(uid))  # type: ignore[misc]

    def _look(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod.look is not None:
            pod.look.cancel()
        pod.look = None
        if not self.up:
            return
        if not self.runtime.up:
            pod.look = self.clock.after(RELIST, lambda: self._look(uid))
            return
        listing = {"seq": self._next_seq(), **self.steps.listed(uid)}
        if _seq(pod.newest) < _seq(listing):
            pod.newest = listing
        self._settle(uid)

    def _returned(self, listing: View) -> None:
        pod = self._pod(listing["uid"])
        if _seq(pod.newest) < _seq(listing):
            pod.newest = listing
        if _seq(pod.known) < _seq(listing):
            pod.known = listing

    def _settle(self, uid: str) -> None:
        """Signal what the workflow has not been told, unless a step will tell it soon or a signal is under way."""
        pod = self._pod(uid)
        if not self.up or pod.flying or not pod.newest:
            return
        busy = (uid, "") in self._holders and self.clock.now - pod.step_began < STEP_PATIENCE
        if busy and not pod.owed:
            if pod.look is None:
                pod.look = self.clock.after(STEP_PATIENCE, lambda: self._look(uid))
            return
        if pod.owed or _worth_telling(pod.known, pod.newest):
            self._deliver(uid, pod)

    def _deliver(self, uid: str, pod: _Pod) -> None:
        listing, owed = pod.newest, pod.owed
        events = owed or [{"type": "PodSync", "id": uid}]
        signal = {"events": events, "status": listing, "node": FACTS}
        ill = self.signals.pop(0) if self.signals else Ill("")
        if ill.kind:
            self.suffered(ill)
        pod.flying = True

        def arrives() -> None:
            self.server.signal("pleg", signal)

        def taken() -> None:
            pod.flying = False
            if self._pods.get(uid) is not pod:
                return
            if ill.kind != "lost":
                pod.owed = pod.owed[len(owed) :]
                if _seq(pod.known) < _seq(listing):
                    pod.known = listing
            self._settle(uid)

        if ill.kind != "lost":
            self.clock.after(ill.seconds, arrives)
        if ill.kind == "doubled":
            self.clock.after(ill.seconds + 3.0, arrives)
        # One that is late is believed to have arrived: what is signalled next overtakes it.
        self.clock.after(5.0 if ill.kind == "lost" else 0.005, taken)

    def _next_seq(self) -> dict[str, int]:
        self._counter += 1
        return {"boot": self._boot, "counter": self._counter}

    def _pod(self, uid: str) -> _Pod:
        return self._pods.setdefault(uid, _Pod())

    # --- the agent: back-off queue ------------------------------------------------------------------------------------

    def arm(self, subject: str, restart: int, delay: float | None) -> None:
        """Signal the end of a back-off then, or with None no more."""
        if (due := self._armed.pop(subject, None)) is not None:
            due.cancel()
        if delay is None or not self.up:
            return

        def expire() -> None:
            self._armed.pop(subject, None)
            ill = self.expirations.pop(0) if self.expirations else Ill("")
            if ill.kind:
                self.suffered(ill)
            for _ in range({"lost": 0, "doubled": 2}.get(ill.kind, 1)):
                self.server.signal("backoff_queue", {"container": subject, "restart": restart})

        self._armed[subject] = self.clock.after(delay, expire)


@dataclass
class _Held:
    """A result that is kept back for a moment."""

    activity: Activity
    report: Callable[[], None]
    due: Due


class _Pair:
    """A step and the start that follows it: the model of `activities.together`."""

    def __init__(self) -> None:
        self.first: Attempt | None = None
        self.first_only_waits = False
        """It only waits for the runtime."""
        self.second: Attempt | None = None
        self.end: dict[str, Any] | str | None = None
        """The result of the first step; `again` if it is tried again, `over` if it has none."""
        self.waiting: list[Attempt] = []
        self.is_over = False
        self.held: _Held | None = None

    def begin(self, attempt: Attempt) -> None:
        self.first, self.first_only_waits, self.end = attempt, False, None

    def release(self) -> None:
        if (held := self.held) is not None:
            self.held = None
            held.due.cancel()
            held.report()

    def forget(self) -> None:
        if self.held is not None:
            self.held.due.cancel()
            self.held = None


def _is_its(instance: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Say whether an instance is what a start makes."""
    named = instance["name"] == request["container"] and instance["restartCount"] == int(request["restart"])
    return bool(named and instance["incarnation"] == request["ref"]["incarnation"])


def _has_come_to(request: Mapping[str, Any], sandboxes: Sequence[Any], there: Sequence[Any]) -> bool:
    """Say whether the pod's start has come to a container: those before it have succeeded or run, and no other is."""
    name, home, spec = request["container"], request["sandboxId"], request["pod"]["spec"]
    names, inits = in_order(request["pod"]), {each["name"] for each in spec.get("initContainers", ())}
    newest: dict[str, Any] = {}
    for each in there:
        newest.setdefault(each["name"], each)
    its = newest.pop(name, None)

    def is_behind(before: str) -> bool:
        instance = newest[before]
        if before in inits:
            seen = "finishedAt" in instance and instance["reason"] != "ContainerStatusUnknown"
            return bool(instance["state"] == "exited" and not instance["exitCode"] and seen)
        return bool(instance["state"] == "running")

    return (
        [each["id"] for each in sandboxes if each["state"] == "SANDBOX_READY"] == [home]
        and (its is None or its["restartCount"] == int(request["restart"]))
        and list(newest) != []
        and set(newest) == set(names[: names.index(name)])
        and all(newest[each]["sandboxID"] == home and is_behind(each) for each in newest)
    )


class _Pod:
    """What the agent knows of one pod."""

    def __init__(self) -> None:
        self.newest: View = {}
        self.known: View = {}
        self.owed: list[dict[str, str]] = []
        self.flying = False
        self.look: Due | None = None
        self.step_began = 0.0


def _seq(listing: View) -> tuple[int, int]:
    seq = listing.get("seq", {})
    return seq.get("boot", 0), seq.get("counter", 0)


def _worth_telling(known: View, newest: View) -> bool:
    """Say whether a listing says something new: other than that something was created, or that a spent one is gone."""
    if not _seq(known) < _seq(newest):
        return False

    def seen(listing: View) -> dict[str, str]:
        return {each["id"]: each["state"] for each in (*listing.get("sandboxes", ()), *listing.get("containers", ()))}

    before, after = seen(known), seen(newest)
    spent = _spent(known)
    return any(
        after.get(id_) != state and not (id_ in spent and id_ not in after) for id_, state in before.items()
    ) or any(id_ not in before and state != "created" for id_, state in after.items())


def _spent(listing: View) -> set[str]:
    """Return what had ended in a listing, and was not the newest of its kind."""
    newest = {container["name"]: container["id"] for container in reversed(listing.get("containers", ()))}
    dead = (each for each in listing.get("containers", ()) if each["state"] == "exited")
    older = listing.get("sandboxes", ())[1:]
    return {each["id"] for each in dead if newest[each["name"]] != each["id"]} | {
        each["id"] for each in older if each["state"] != "SANDBOX_READY"
    }
