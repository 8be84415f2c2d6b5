"""What each step does to the runtime: the model of `activities`, call by call, under virtual time.

Each function is the routine of the same name there, with its looking before it acts, what it adopts and what it clears
away; directories, images' contents and events are left out. What is given and returned is what crosses Temporal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any

from syncpod.lifecycle.start_errors import failed_start
from syncpod.messages.steps import Fault
from tests.simulator.attempt import Ahead, Attempt, Body, Call, Interrupted, Pause, PodFault
from tests.simulator.runtime import (
    FOREVER,
    SHORT,
    Container,
    CriError,
    NameReserved,
    Runtime,
    Starting,
    Stop,
    Unavailable,
)

View = dict[str, Any]
Target = Mapping[str, Any]
Selection = Sequence[tuple[dict[str, Any], Target]]
Routine = Generator[Call | Pause, Any, Any]

LINGER_SECONDS, LATE_SECONDS = 0.2, 0.03
"""How long the start of an init container waits for its exit, and how much later than its process that is reported."""
LEAST_PATIENCE = 10.0
DEAD_KEPT = 1
HOOK_SECONDS = 0.3
"""How long a hook takes that nothing is wrong with."""
NOT_READY = Fault.NETWORK_NOT_READY.value


class Steps:
    """The steps of one node."""

    def __init__(self, runtime: Runtime, next_seq: Callable[[], dict[str, int]]) -> None:
        """`next_seq` numbers a listing as it begins."""
        self.runtime = runtime
        self._next_seq = next_seq
        self.only_waits: Callable[[Attempt], None] = lambda _: None
        """Hears of a start that only waits for the runtime."""
        self.hidden: set[tuple[str, str, str, int]] = set()
        """What was created before its turn, and is listed by nobody."""
        self._stops: dict[str, list[tuple[float, Stop]]] = {}
        self._views: dict[tuple[str, str], tuple[int, View]] = {}
        self.failing_hooks = 0
        """How many of the next postStart hooks fail."""
        self.hanging_hooks: list[float] = []
        """How many seconds the next preStop hooks take."""
        self._hooks: dict[str, float] = {}
        """When the preStop hook of a container is over, which is carried out once, whatever becomes of the step."""
        self.no_room = 0
        """How many times the node answers that it has no room for a resize."""

    def body(self, attempt: Attempt) -> Body:
        """Return the code of an attempt's step."""
        if attempt.clears:
            return self._clear_created(attempt.request)
        return _BODIES[attempt.activity.name](self, attempt, attempt.request)

    def worker_died(self) -> None:
        """Abandon the stops under way: their client is gone."""
        for calls in self._stops.values():
            for _, stop in calls:
                stop.abandoned = True
        self._stops.clear()
        self._hooks.clear()
        self._views.clear()
        self.hidden.clear()

    def returned(self, attempt: Attempt, view: View) -> None:
        """Keep what a step has listed last: the model of `activities.node.views`."""
        ref = attempt.request["ref"]
        self._views[str(ref["uid"]), str(ref["incarnation"])] = (attempt.fence, view)

    def _last_view(self, attempt: Attempt) -> View | None:
        """Return what the step just before this one has listed last; None for a further attempt."""
        ref = attempt.request["ref"]
        fence, view = self._views.get((str(ref["uid"]), str(ref["incarnation"])), (-1, {}))
        return view if attempt.number == 1 and attempt.fence == fence + 1 else None

    def listed(self, uid: str) -> View:
        """List a pod, without what was created before its turn. Raises Unavailable."""
        view = self.runtime.list(uid)
        view["containers"] = [each for each in view["containers"] if _instance(uid, each) not in self.hidden]
        return view

    def read(self, uid: str) -> Generator[Call | Pause, Any, View]:
        """List a pod. Raises Unavailable."""

        def begin() -> tuple[float, Callable[[], View]]:
            seq = self._next_seq()
            self.runtime.list(uid)
            return SHORT, lambda: {"seq": seq, **self.listed(uid)}

        view: View = yield Call(begin)
        return view

    # --- making -------------------------------------------------------------------------------------------------------

    def create_sandbox(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Make the sandbox of that attempt, or adopt it; it is spent where one is there that cannot be used."""
        ref, number, pause = request["ref"], int(request["attempt"]), 0.02
        while True:
            view = yield from self.read(ref["uid"])
            taken = [sandbox for sandbox in view["sandboxes"] if sandbox["attempt"] == number]
            adoptable = [
                sandbox
                for sandbox in taken
                if sandbox["state"] == "SANDBOX_READY" and sandbox["incarnation"] == ref["incarnation"]
            ]
            missing = self._missing_images(request)
            if adoptable:
                return {"outcome": "adopted", "id": adoptable[0]["id"], "missingImages": missing}
            if taken:
                return (yield from self._clear_away(attempt, request, taken))
            attempt.checkpoint()
            if not self.runtime.network:
                raise PodFault(NOT_READY, "network is not ready")
            try:
                made = yield Call(
                    lambda: self.runtime.run_sandbox(
                        ref["uid"], number, ref["incarnation"], client_there=lambda: attempt.alive
                    ),
                    makes=True,
                )
            except NameReserved:
                yield Pause(pause)
                pause = min(2 * pause, 0.5)
            except Unavailable:
                raise
            except CriError as error:
                raise PodFault("FailedCreatePodSandBox", str(error)) from error
            else:
                return {"outcome": "done", "id": made.id, "missingImages": missing}

    def _clear_away(self, attempt: Attempt, request: Mapping[str, Any], taken: Sequence[Mapping[str, Any]]) -> Body:
        homes = {sandbox["id"] for sandbox in taken}
        grace = request["pod"]["spec"].get("terminationGracePeriodSeconds", 30)

        def alive(view: View) -> Selection:
            return [
                (each, {"id": each["id"], "name": each["name"], "graceSeconds": grace})
                for each in view["containers"]
                if each["sandboxID"] in homes and each["state"] != "exited"
            ]

        view = yield from self._end_containers(attempt, alive, by="create_sandbox")
        there = [container for container in view["containers"] if container["sandboxID"] in homes]
        for container in there:
            yield from self._remove(container["id"])
        for home in sorted(homes):
            yield from self._call(partial(self.runtime.stop_sandbox, home))
            yield from self._call(partial(self.runtime.remove_sandbox, home))
        left = yield from self.read(request["ref"]["uid"])
        ran = [container for container in there if "startedAt" in container]
        return {"outcome": "spent", "status": {**left, "containers": [*ran, *left["containers"]]}}

    def start_container(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Create and start a container, or adopt the instance of that restart; clear away what never ran."""
        if (made := (yield from self._taken(attempt))) is not None:
            view = yield from self.read(request["ref"]["uid"])
            return (yield from self._start(attempt, request, made.id, view))
        ref, name, restart, pause = request["ref"], request["container"], int(request["restart"]), 0.02
        spec = request["pod"]["spec"]
        every = [each for kind in _KINDS for each in spec.get(kind, ())]
        container = next(each for each in every if each["name"] == name)
        while True:
            view = yield from self.read(ref["uid"])
            instance = next(
                (
                    each
                    for each in view["containers"]
                    if each["name"] == name
                    and each["restartCount"] == restart
                    and each["incarnation"] == ref["incarnation"]
                ),
                None,
            )
            if instance is not None and _was_refused(instance):
                raise PodFault("RunContainerError", instance["message"])
            if instance is not None and "startedAt" in instance:
                if instance["state"] == "running":
                    yield from self._post_start(attempt, request, instance["id"])
                return {"outcome": "adopted", "id": instance["id"]}
            if instance is not None:
                yield from self._remove_unstarted(instance["id"])
                yield Pause(pause)
                pause = min(2 * pause, 0.5)
                continue
            if container["image"] not in self.runtime.images:
                return {"outcome": "imageAbsent"}
            attempt.checkpoint()
            try:
                made = yield Call(lambda: self.runtime.create(_asked(request, container)), makes=True)
            except NameReserved:
                yield Pause(pause)
                pause = min(2 * pause, 0.5)
                continue
            except Unavailable:
                raise
            except CriError as error:
                raise PodFault("CreateContainerError", str(error)) from error
            return (yield from self._start(attempt, request, made.id, view))

    def _taken(self, attempt: Attempt) -> Generator[Call | Pause, Any, Container | None]:
        """Return what was created for a start before its turn, which has come."""
        while attempt.ahead is not None and attempt.ahead.busy:
            yield Pause(0.002)
        ahead, attempt.ahead = attempt.ahead, None
        if ahead is None:
            return None
        self.hidden.discard(instance_of(attempt.request))
        return ahead.made

    def create_ahead(self, attempt: Attempt) -> None:
        """Create the container of a start that waits for its turn, if that is possible."""
        request = attempt.request
        every = [each for kind in _KINDS for each in request["pod"]["spec"].get(kind, ())]
        container = next(each for each in every if each["name"] == request["container"])
        if attempt.number > 1 or attempt.interrupted or container["image"] not in self.runtime.images:
            return
        try:
            seconds, effect = self.runtime.create(_asked(request, container))
        except CriError:
            return
        ahead = attempt.ahead = Ahead()
        self.hidden.add(instance_of(request))

        def over() -> None:
            ahead.busy = False
            with contextlib.suppress(CriError):
                ahead.made = effect()
            for go_on in ahead.waiting:
                go_on()

        self.runtime.clock.after(seconds, over)

    def _clear_created(self, request: Mapping[str, Any]) -> Body:
        """Remove what an earlier try has created before its turn."""
        for each in (yield from self.read(request["ref"]["uid"]))["containers"]:
            if _instance(request["ref"]["uid"], each) == instance_of(request) and each["state"] == "created":
                yield from self._remove_unstarted(each["id"])
        return {"outcome": "notBegun"}

    def _start(self, attempt: Attempt, request: Mapping[str, Any], container_id: str, view: View) -> Body:
        """Start what was just created; what has failed and never ran is removed, unless that is its end."""
        name = request["container"]
        if attempt.interrupted:
            yield from self._remove_unstarted(container_id)
            raise Interrupted
        if request["kind"] == "container" and not self._has_post_start(request):
            self.only_waits(attempt)
        try:
            yield Call(lambda: self.runtime.start(container_id), makes=True)
        except Unavailable:
            raise
        except CriError as error:
            view = yield from self.read(request["ref"]["uid"])
            instance = next((each for each in view["containers"] if each["id"] == container_id), None)
            if instance is None or "startedAt" not in instance:
                if instance is not None and not _was_refused(instance):
                    yield from self._remove_unstarted(container_id)
                raise PodFault("RunContainerError", str(error)) from error
        dead = [each for each in view["containers"] if each["name"] == name and each["state"] == "exited"]
        for spare in dead[DEAD_KEPT:]:
            if spare["id"] in request["prune"]:
                yield from self._remove(spare["id"])
        yield from self._post_start(attempt, request, container_id)
        if request["kind"] == "init_container":
            deadline = self.runtime.clock.now + LINGER_SECONDS
            while self.runtime.clock.now < deadline and not attempt.interrupted:
                made = self.runtime.containers.get(container_id)
                if made is None or made.state == "exited":
                    if attempt.number == 1 and not int(request["restart"]):
                        self.only_waits(attempt)
                    with contextlib.suppress(Interrupted):
                        yield Pause(LATE_SECONDS)
                    break
                try:
                    yield Pause(0.02)
                except Interrupted:
                    break
        return {"outcome": "done", "id": container_id}

    def _post_start(self, attempt: Attempt, request: Mapping[str, Any], container_id: str) -> Routine:
        """Carry out the postStart hook, if there is one; where it fails the container is ended with its grace."""
        if not self._has_post_start(request):
            return
        name, spec = request["container"], request["pod"]["spec"]
        mains = {each["name"]: each for each in spec["containers"]}
        lifecycle: Mapping[str, Any] = mains[name]["lifecycle"]
        yield Pause(HOOK_SECONDS)
        if not self.failing_hooks:
            return
        self.failing_hooks -= 1
        grace = int(attempt.waited) + int(spec.get("terminationGracePeriodSeconds", 30))
        target = {"id": container_id, "name": name, "graceSeconds": grace, "preStop": lifecycle.get("preStop")}

        def alive(view: View) -> Selection:
            return [(c, target) for c in view["containers"] if c["id"] == container_id and c["state"] != "exited"]

        yield from self._end_containers(attempt, alive, by="postStart")
        raise PodFault("PostStartHookError", "PostStartHook failed")

    def _has_post_start(self, request: Mapping[str, Any]) -> bool:
        mains = {each["name"]: each for each in request["pod"]["spec"]["containers"]}
        return bool(mains.get(request["container"], {}).get("lifecycle", {}).get("postStart"))

    def pull_image(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Pull a container's image."""
        spec = request["pod"]["spec"]
        every = [each for kind in _KINDS for each in spec.get(kind, ())]
        image = next(each["image"] for each in every if each["name"] == request["container"])

        def begin() -> tuple[float, Callable[[], None]]:
            return 0.01, lambda: self.runtime.images.add(image)

        yield Pause(1.0)  # the layers: given up when the step is to let go
        try:
            yield Call(begin, makes=True)
        except CriError as error:
            raise PodFault("ErrImagePull", str(error)) from error
        return {"outcome": "done", "missingImages": self._missing_images(request)}

    def nothing(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Take a moment: what the step does is not the runtime's."""
        yield Pause(0.01)
        return {"outcome": "done"}

    def resize_pod(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Give containers what they are to have."""
        try:
            yield Call(lambda: (SHORT, lambda: None), makes=True)
        except Unavailable:
            raise
        except CriError as error:
            raise PodFault("ResizePodInPlaceError", str(error)) from error
        return {"outcome": "done"}

    def allocate_resources(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Answer whether there is room."""
        yield Pause(0.01)
        if self.no_room:
            self.no_room -= 1
            return {"outcome": "done", "allocation": {"pending": "Deferred", "message": "no room"}}
        return {"outcome": "done", "allocation": {"pending": ""}}

    # --- ending -------------------------------------------------------------------------------------------------------

    def kill_container(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Stop one container, and wait until it has ended."""
        target = request["target"]

        def alive(view: View) -> Selection:
            return [(c, target) for c in view["containers"] if c["id"] == target["id"] and c["state"] != "exited"]

        work = self._ended(attempt, alive, by=f"kill_container {request.get('reason', '')}")
        return (yield from self._with_patience(attempt, target["graceSeconds"], work))

    def kill_pod(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Stop every container, then every sandbox, until nothing runs."""
        return (yield from self._with_patience(attempt, request["graceSeconds"], self._kill_pod(attempt, request)))

    def _kill_pod(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        targets = {target["id"]: target for target in request["targets"]}

        def alive(view: View) -> Selection:
            return [
                (c, targets.get(c["id"]) or {"id": c["id"], "name": c["name"], "graceSeconds": request["graceSeconds"]})
                for c in view["containers"]
                if c["state"] != "exited"
            ]

        meant = {target["id"] for target in request["targets"] if not target.get("preStop")}

        def suffices(view: View) -> bool:
            living = [c for c in view["containers"] if c["state"] != "exited"]
            return bool(living) and all(c["state"] == "running" and c["id"] in meant for c in living)

        known = self._last_view(attempt)
        while True:
            certain = known if known is not None and suffices(known) else None
            known = None
            view = yield from self._end_containers(attempt, alive, by="kill_pod", known=certain)
            for sandbox in view["sandboxes"]:
                if sandbox["state"] == "SANDBOX_READY" or sandbox["id"] not in request["stopped"]:
                    yield from self._call(partial(self.runtime.stop_sandbox, sandbox["id"]))
            view = yield from self.read(request["ref"]["uid"])
            if not alive(view) and all(sandbox["state"] != "SANDBOX_READY" for sandbox in view["sandboxes"]):
                return {"outcome": "done", "status": view, "over": bool(request.get("deleted"))}
            yield Pause(0.05)

    def remove_containers(self, attempt: Attempt, request: Mapping[str, Any]) -> Body:
        """Remove containers; those to be killed are stopped first, with the least grace."""

        def to_end(view: View) -> Selection:
            return [
                (c, {"id": c["id"], "name": c["name"], "graceSeconds": 0})
                for c in view["containers"]
                if c["id"] in request["kill"] and c["state"] != "exited"
            ]

        stopped: list[dict[str, Any]] = []
        view = yield from self.read(request["ref"]["uid"])
        if to_end(view):
            ended = self._ended(attempt, to_end, by="remove_container")
            view = (yield from self._with_patience(attempt, 0, ended))["status"]
            there = [each for each in view["containers"] if each["id"] in request["kill"]]
            stopped = [_exit(each) for each in there if each["state"] == "exited" and "startedAt" in each]
        listed = {each["id"]: each for each in view["containers"]}
        for container_id in request["ids"]:
            attempt.checkpoint()
            state = listed.get(container_id, {}).get("state")
            if state == "exited":
                yield from self._remove(container_id)
            elif state == "created":
                yield from self._remove_unstarted(container_id)
        return {"outcome": "done", "stopped": stopped}

    def _ended(self, attempt: Attempt, select: Callable[[View], Selection], *, by: str) -> Body:
        return {"outcome": "done", "status": (yield from self._end_containers(attempt, select, by=by))}

    def _with_patience(self, attempt: Attempt, grace: float, work: Body) -> Body:
        """Give a kill half as long again as its grace, then say that it takes too long."""
        patience = max(LEAST_PATIENCE, 1.5 * grace)
        left = max(LEAST_PATIENCE, patience - attempt.waited)
        alarm = self.runtime.clock.after(left, lambda: attempt.interrupt(expired=True))
        try:
            return (yield from work)
        except Interrupted:
            if not attempt.expired or attempt.asked:
                raise
            raise PodFault("ExceededGracePeriod", "it did not end within its grace") from None
        except CriError as error:
            if isinstance(error, Unavailable) or attempt.waited < patience:
                raise
            raise PodFault("FailedKillPod", str(error)) from error
        finally:
            alarm.cancel()

    def _end_containers(
        self, attempt: Attempt, select: Callable[[View], Selection], *, by: str, known: View | None = None
    ) -> Generator[Call | Pause, Any, View]:
        """End what `select` picks; with what the last step has listed (`known`), nothing is listed after the stops."""
        pause = 0.02
        while True:
            view = known if known is not None else (yield from self.read(attempt.request["ref"]["uid"]))
            chosen = select(view)
            if not chosen:
                return view
            yield from self._end_in_order(attempt, chosen, by)
            if known is not None:
                return known
            view = yield from self.read(attempt.request["ref"]["uid"])
            if not select(view):
                return view
            yield Pause(pause)
            pause = min(2 * pause, 0.5)

    def _end_in_order(self, attempt: Attempt, chosen: Selection, by: str) -> Routine:
        """Stop all at once, but each only after those it is to follow, or when waiting has used its grace up."""
        ended: set[str] = set()
        for container, _ in chosen:
            if container["state"] == "created":
                yield from self._remove_unstarted(container["id"])
                ended.add(container["id"])
        waiting = {target["id"]: target for _, target in chosen if target["id"] not in ended}
        names, sent, pause = set(waiting) | ended, dict[str, Stop](), 0.02
        while len(ended) < len(names):
            for id_, target in waiting.items():
                before = [each for each in target.get("after", ()) if each in names and each not in ended]
                waits = before or self._pre_stops(id_, target)
                if id_ not in sent and (not waits or attempt.waited >= target["graceSeconds"]):
                    timeout = max(int(target["graceSeconds"]) - int(attempt.waited), 2)
                    sent[id_] = self._stop(id_, timeout, by)
            ended |= {id_ for id_, stop in sent.items() if stop.done}
            if len(ended) < len(names):
                yield Pause(pause)
                pause = min(2 * pause, 0.5)
        for stop in sent.values():
            if stop.error is not None:
                raise stop.error

    def _pre_stops(self, container_id: str, target: Target) -> bool:
        """Say whether the container's preStop hook is still being carried out: begun now, if it has one."""
        if not target.get("preStop"):
            return False
        now = self.runtime.clock.now
        if container_id not in self._hooks:
            self._hooks[container_id] = now + (self.hanging_hooks.pop(0) if self.hanging_hooks else HOOK_SECONDS)
        return now < self._hooks[container_id]

    def _stop(self, container_id: str, timeout: float, by: str) -> Stop:
        """Send a StopContainer, unless one is under way that kills by then."""
        now = self.runtime.clock.now
        calls = [(at, stop) for at, stop in self._stops.get(container_id, ()) if not stop.done]
        self._stops[container_id] = calls
        for at, stop in calls:
            if now - 10.0 <= at <= now + timeout:
                return stop
        try:
            stop = self.runtime.stop(container_id, timeout, by)
        except Unavailable as error:
            return Stop(done=True, error=error)
        calls.append((now + timeout, stop))
        return stop

    # --- small ones ---------------------------------------------------------------------------------------------------

    def _call(self, begin: Callable[[], tuple[float, Callable[[], Any]]]) -> Routine:
        return (yield Call(begin))

    def _remove(self, container_id: str) -> Routine:
        yield Call(lambda: self.runtime.remove(container_id))

    def _remove_unstarted(self, container_id: str) -> Generator[Call | Pause, Any, bool]:
        try:
            yield Call(lambda: self.runtime.remove(container_id))
        except Starting:
            return False
        return True

    def _missing_images(self, request: Mapping[str, Any]) -> list[str]:
        spec = request["pod"]["spec"]
        every = [each for kind in _KINDS[:2] for each in spec.get(kind, ())]
        return [each["name"] for each in every if each["image"] not in self.runtime.images]


_KINDS = ("initContainers", "containers", "ephemeralContainers")


def instance_of(request: Mapping[str, Any]) -> tuple[str, str, str, int]:
    """Return which instance a start makes."""
    ref = request["ref"]
    return str(ref["uid"]), str(ref["incarnation"]), str(request["container"]), int(request["restart"])


def _instance(uid: str, listed: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return uid, str(listed["incarnation"]), str(listed["name"]), int(listed["restartCount"])


def _was_refused(instance: Mapping[str, Any]) -> bool:
    """Say whether an instance is a start that the runtime could not carry out, which is an end like others."""
    return (
        instance["state"] == "exited" and "startedAt" not in instance and failed_start(instance["message"]) == "refused"
    )


def _exit(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return how an instance ended, as a step tells it of one that it has stopped and removes."""
    same = {field: instance[field] for field in ("id", "name", "exitCode", "reason", "startedAt")}
    return {**same, "restart": instance["restartCount"]}


def _asked(request: Mapping[str, Any], container: Mapping[str, Any]) -> Container:
    ref = request["ref"]
    return Container(
        id="",
        uid=ref["uid"],
        name=container["name"],
        restart=int(request["restart"]),
        sandbox=request["sandboxId"],
        image=container["image"],
        incarnation=ref["incarnation"],
        created=0.0,
        kind=request["kind"],
        life=FOREVER,
    )


_BODIES: dict[str, Callable[[Steps, Attempt, Mapping[str, Any]], Body]] = {
    "create_sandbox": Steps.create_sandbox,
    "sync_volumes": Steps.nothing,
    "allocate_resources": Steps.allocate_resources,
    "resize_pod": Steps.resize_pod,
    "pull_image": Steps.pull_image,
    "start_container": Steps.start_container,
    "start_init_container": Steps.start_container,
    "start_ephemeral_container": Steps.start_container,
    "kill_container": Steps.kill_container,
    "kill_pod": Steps.kill_pod,
    "remove_container": Steps.remove_containers,
}
