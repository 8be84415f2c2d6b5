"""Why a pod is not ready: its containers that are not ready, and the state of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from syncpod.api.views.pod_columns import summarize
from syncpod.pod import Container, ContainerStateTerminated, ContainerStatus, Pod, pod_to_wire


def unready(pod: Pod) -> str:
    """Return the pod's status, followed by the reason why it is not ready.

    The reason is the message of the pod's status; else each container that is not ready, with the reason and message of
    its state, its exit code or its probe; else the readiness gates. Containers that only wait for an init container are
    left out.
    """
    word = summarize(pod_to_wire(pod)).status
    why = _one_line(pod.status.message) or "; ".join(_containers(pod, word.removeprefix("Init:"))) or _gates(pod)
    return f"{word}, {why}" if why else word


def _containers(pod: Pod, word: str) -> list[str]:
    """Return a phrase for each container that keeps the pod from being ready; `word` is the status before it."""
    init = list(_init_containers(pod, word))
    return [*init, *_main_containers(pod, word, behind=bool(init))]


def _init_containers(pod: Pod, word: str) -> Iterator[str]:
    """Yield a phrase for each init container that is not done, and each sidecar that is not ready."""
    for container, entry in _pairs(pod.spec.init_containers, pod.status.init_container_statuses):
        ended, sidecar = entry.state.terminated, container.restart_policy == "Always"
        if _is_initializing(entry) or (entry.ready if sidecar else ended is not None and ended.exit_code == 0):
            continue
        if entry.state.running is not None and not sidecar:
            yield f"init container {entry.name}: runs, and has not ended yet"
        else:
            yield f"init container {entry.name}{_state(container, entry, word)}"


def _main_containers(pod: Pod, word: str, *, behind: bool) -> Iterator[str]:
    """Yield a phrase for each main container that is not ready.

    With `behind`, containers that only wait for init containers are left out.
    """
    for container, entry in _pairs(pod.spec.containers, pod.status.container_statuses):
        ended = entry.state.terminated
        done = pod.status.phase == "Failed" and ended is not None and ended.exit_code == 0
        if entry.ready or done or (behind and _is_initializing(entry)):
            continue
        yield f"container {entry.name}{_state(container, entry, word)}"


def _pairs(
    containers: tuple[Container, ...], statuses: tuple[ContainerStatus, ...]
) -> Iterator[tuple[Container, ContainerStatus]]:
    by_name = {entry.name: entry for entry in statuses}
    return ((container, by_name[container.name]) for container in containers if container.name in by_name)


def _is_initializing(entry: ContainerStatus) -> bool:
    """Return whether a container waits for init containers before it."""
    return entry.state.waiting is not None and entry.state.waiting.reason == "PodInitializing"


def _state(container: Container, entry: ContainerStatus, word: str) -> str:
    """Return a colon and a container's state; "" if the state would only repeat `word`."""
    if entry.state.terminated is not None:
        said = _ended(entry.state.terminated, word)
    elif entry.state.running is not None:
        said = f"runs, and {_probe(container, entry)}"
    else:
        waiting = entry.state.waiting
        reason, message = (waiting.reason, _one_line(waiting.message)) if waiting is not None else ("", "")
        said = ": ".join(part for part in ("" if reason == word else reason, message) if part)
        if (before := entry.last_state.terminated) is not None:
            said = "; ".join(part for part in (said, f"it ended before with {_ended(before, 'Error')}") if part)
    return f": {said}" if said else ""


def _ended(ended: ContainerStateTerminated, word: str) -> str:
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    what = how if ended.reason in ("", word) else f"{ended.reason}, {how}"
    message = _one_line(ended.message)
    return f"{what}: {message}" if message else what


def _probe(container: Container, entry: ContainerStatus) -> str:
    if container.startup_probe is not None and not entry.started:
        return "its startup probe has not succeeded yet"
    if container.readiness_probe is not None:
        return "its readiness probe does not succeed"
    return "is not ready yet"


def _gates(pod: Pod) -> str:
    ready = next((each for each in pod.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status == "True" or ready.reason != "ReadinessGatesNotReady":
        return ""
    return _one_line(ready.message).rstrip(".")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def hindrance(pod: Pod) -> str:
    """Return the message of the node or the runtime about why a pod does not come up; "" = there is none.

    The message of a container that exited 0 does not count.
    """
    status = pod.status
    if status.message:
        return status.message
    for entry in (*status.init_container_statuses, *status.container_statuses):
        waiting, ended = entry.state.waiting, entry.state.terminated
        message = waiting.message if waiting else ended.message if ended and ended.exit_code else ""
        if message:
            return f"container {entry.name}: {message}"
    return ""
