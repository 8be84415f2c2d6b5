"""A pod's undisturbed start: its init containers one after the other, then its main containers.

In such a start, it is certain which container starts next. That start can begin as soon as the one before is done.
"""

from __future__ import annotations

from itertools import takewhile

from syncpod.lifecycle.observed import ObservedContainer, ObservedPod
from syncpod.lifecycle.restart import is_sidecar
from syncpod.pod import Container, Pod


def in_order(pod: Pod) -> tuple[Container, ...]:
    """Return the containers in the order in which a pod's start takes them."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def has_come_to(pod: Pod, view: ObservedPod, name: str, sandbox_id: str) -> bool:
    """Say whether the pod's start has come to this container, and nothing else has happened in the pod.

    `view` is the pod without earlier lives. Its one ready sandbox is the given one. In this sandbox, every init
    container before this one has succeeded, and every main container before it runs. Nothing else was ever made,
    except, perhaps, this container itself. False for a pod with sidecars, which take turns with other containers.
    """
    if [sandbox.id for sandbox in view.sandboxes if sandbox.ready] != [sandbox_id]:
        return False
    if any(is_sidecar(each) for each in pod.spec.init_containers):
        return False
    newest, mains = view.newest_by_name(), {each.name for each in pod.spec.containers}
    before = [each.name for each in takewhile(lambda each: each.name != name, in_order(pod))]
    if newest.keys() - {name} != set(before):
        return False
    return all(_is_behind(newest[each], is_main=each in mains, sandbox_id=sandbox_id) for each in before)


def _is_behind(instance: ObservedContainer, *, is_main: bool, sandbox_id: str) -> bool:
    if instance.sandbox_id != sandbox_id:
        return False
    if is_main:
        return instance.state == "running"
    ended = instance.exit
    return ended is not None and ended.is_certain and ended.exit_code == 0
