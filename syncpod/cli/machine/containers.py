"""Finds a command's container in its pod, and the container's instances in the pod's status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.journal.records import NEVER_RAN
from syncpod.pod import ContainerStateTerminated, ContainerStatus, Pod

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Annotation that names the default container."""


def container_names(pod: Pod) -> list[str]:
    """Return the names of all containers: init, normal, ephemeral."""
    spec = pod.spec
    return [container.name for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]


def chosen_container(pod: Pod, asked: str) -> str:
    """Return the requested container, else the pod's default one, else its first one, with a note.

    The note lists main containers first, as kubectl does. Raises Failure if the pod lacks the requested container.
    """
    names = container_names(pod)
    if asked:
        if asked not in names:
            raise Failure(f'container "{asked}" is not in pod "{pod.metadata.name}", which has {", ".join(names)}')
        return asked
    marked = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if marked in names:
        return marked
    first = pod.spec.containers[0].name
    if len(names) > 1:
        shown = [
            *(container.name for container in pod.spec.containers),
            *(f"{container.name} (ephem)" for container in pod.spec.ephemeral_containers),
            *(f"{container.name} (init)" for container in pod.spec.init_containers),
        ]
        note_default(first, shown)
    return first


def note_default(container: str, shown: Sequence[str]) -> None:
    """Print on standard error which container was chosen, and the containers to choose from, in kubectl's words."""
    remark(f'Defaulted container "{container}" out of: {", ".join(shown)}')


def status_of(pod: Pod, container: str) -> ContainerStatus:
    """Return the container's status, an empty one if there is none yet."""
    status = pod.status
    for entry in (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses):
        if entry.name == container:
            return entry
    return ContainerStatus(name=container)


@dataclass(frozen=True)
class ContainerInstance:
    """One instance of a container in the runtime."""

    id: str
    restart: int
    why_no_log: str = ""
    """The sentence that the instance could not be started, so that its log may be empty; "" if it was started."""


def current_instance(pod: Pod, container: str) -> ContainerInstance:
    """Return the instance that runs or ran last. Raises Failure with the reason if there is none yet."""
    status = status_of(pod, container)
    waiting, ended, last = status.state.waiting, status.state.terminated, status.last_state.terminated
    named = f'container "{container}" in pod "{pod.metadata.name}"'
    why = waiting.reason if waiting is not None and waiting.reason else "ContainerCreating"
    if ended is not None and not (status.container_id or ended.container_id):
        raise Failure(f"{named} has never run: {_verdict(pod)}")
    if status.state.running is not None or ended is not None:
        why_no_log = _refused(f"{named} could not be started", ended)
        return ContainerInstance(_raw(status.container_id), status.restart_count, why_no_log)
    if last is not None and last.container_id:
        why_no_log = _refused(f"{named} is waiting to start: {why}", last)
        return ContainerInstance(_raw(last.container_id), _restart_of(status, last.container_id), why_no_log)
    if pod.status.phase == "Failed":
        raise Failure(f"{named} has never run: {_verdict(pod)}")
    said = f": {waiting.message}" if waiting is not None and waiting.message else ""
    raise Failure(f"{named} is waiting to start: {why}{said}")


def _refused(sentence: str, ended: ContainerStateTerminated | None) -> str:
    """Return the sentence with the runtime's reason why an instance could not be started; "" if it has run."""
    if ended is None or ended.reason not in NEVER_RAN:
        return ""
    return f"{sentence}: {ended.message or ended.reason}"


def _verdict(pod: Pod) -> str:
    """Return why a pod has failed as a whole: the node's reason and message."""
    status = pod.status
    return f"the pod has failed: {': '.join(part for part in (status.reason, status.message) if part) or 'no reason'}"


def running_instance(pod: Pod, container: str) -> ContainerInstance:
    """Return the running instance. Raises Failure with the container's state if none runs."""
    status = status_of(pod, container)
    if status.state.running is not None:
        return ContainerInstance(_raw(status.container_id), status.restart_count)
    waiting, ended = status.state.waiting, status.state.terminated
    how = f"exited {ended.exit_code}" if ended else waiting.reason if waiting and waiting.reason else "not started"
    raise Failure(f'container "{container}" in pod "{pod.metadata.name}" does not run: {how}')


def previous_instance(pod: Pod, container: str) -> ContainerInstance:
    """Return the instance before the current one. Raises Failure if there is none."""
    status = status_of(pod, container)
    last = status.last_state.terminated
    if last is None or not last.container_id:
        raise Failure(f'previous terminated container "{container}" in pod "{pod.metadata.name}" not found')
    sentence = f'previous terminated container "{container}" in pod "{pod.metadata.name}" could not be started'
    return ContainerInstance(_raw(last.container_id), _restart_of(status, last.container_id), _refused(sentence, last))


def _restart_of(status: ContainerStatus, container_id: str) -> int:
    """Return the restart number of an instance: that in the status; one less if it is the previous instance."""
    return status.restart_count if container_id == status.container_id else max(0, status.restart_count - 1)


def _raw(container_id: str) -> str:
    """Return the id without the scheme of ``containerd://<id>``."""
    return container_id.rpartition("://")[2]
