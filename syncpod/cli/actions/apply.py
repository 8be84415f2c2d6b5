"""Creates and changes the pods, ConfigMaps and Secrets of manifests, for ``apply``, ``create``, ``run`` and ``up``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import first_few, remark, say, warn
from syncpod.cli.failure import Failure, together
from syncpod.cli.fetched import busy
from syncpod.cli.input.manifests import Manifests
from syncpod.cli.machine.embedded_images import image_warnings
from syncpod.cli.machine.kept_logs import last_words
from syncpod.cli.machine.object_apply import keep, require_possible
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import local_node
from syncpod.cli.orphan_notes import note_earlier, orphans_here
from syncpod.cli.temporal import session, updates
from syncpod.cli.temporal.ephemeral_containers import without_known
from syncpod.cli.temporal.foresight import Foresight, NodeUnanswered, refuse_unenforced
from syncpod.cli.temporal.pod_apply import BUSY, apply_pod, refuse_cordoned
from syncpod.cli.temporal.pod_waits import sentences, until_settled
from syncpod.cli.temporal.unserved import never_served
from syncpod.cli.view.progress import Progress
from syncpod.messages.pod_commands import Change
from syncpod.settings.worker_record import serving
from syncpod.translation.features import depends_on_runtime

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.pod_apply import Applied
    from syncpod.pod import Admission, Pod


_AT_ONCE: Final = 8
"""Maximum number of pods applied at the same time. With many more, a node's answers would come after our timeout."""
_NOTE_SECONDS: Final = 2.0
"""Seconds after which a note says that a node has not answered yet."""


def apply_manifests(
    manifests: Manifests, node: str, patience: timedelta | None = None, *, wait: bool = False, creates: bool = False
) -> None:
    """Create or change the objects in manifests; pods without a node go to `node`. With `wait`, wait until they are up.

    With `creates`, an object that exists is left as it is, and is a failure. Raises BadInput, Failure.
    """
    machine = settings()
    require_possible(manifests, machine, asked=node)
    if not manifests.pods:
        keep(manifests, machine, creates=creates)
        return
    here = local_node(node)

    async def work(client: Client) -> None:
        begun = time.monotonic()
        pods = await without_known(client, manifests.pods)
        nodes = await refuse_cordoned(client, [admission.pod for admission in pods], here)
        await refuse_unenforced(client, [admission.pod for admission in pods], here, nodes)
        keep(manifests, machine, creates=creates)
        applied = await apply_all(client, pods, here, nodes, patience if wait else None, creates=creates)
        if wait:
            await _wait(client, applied, patience, timedelta(seconds=time.monotonic() - begun))

    session.run(work)


async def apply_all(
    client: Client,
    admissions: list[Admission],
    node: str,
    served: Collection[str],
    patience: timedelta | None = None,
    *,
    creates: bool = False,
) -> list[Applied]:
    """Apply pods, a few at a time, and print the results in order; a failure does not stop the others.

    `served` are nodes that a worker is known to have served. If any other node does not answer, the server is queried:
    has a worker ever served that node? `patience` may shorten the wait for each answer; `creates`: see `apply_pod`.
    """
    slots = asyncio.Semaphore(_AT_ONCE)

    async def apply_one(pod: Pod) -> Applied:
        async with slots:
            return await apply_pod(client, pod, node=node, patience=patience, creates=creates)

    there = await asyncio.to_thread(_running_alone, admissions)
    for key in (key for key, is_sure in there.items() if is_sure):
        note_earlier(*key)  # before anything is applied, so that Ctrl-C can still prevent it
    lacking = await image_warnings(settings().state_dir, node, [admission.pod for admission in admissions])
    applied: list[Applied] = []
    failures: list[Failure] = []
    silent: dict[tuple[str, str], list[str]] = {}
    applying = {asyncio.create_task(apply_one(pod)): pod for pod, _ in admissions}
    telling = asyncio.create_task(_note_slow_nodes(applying, node))
    for (pod, warnings), answer in zip(admissions, applying, strict=True):
        try:
            one = await answer
        except Failure as failure:
            failures.append(failure)
            continue
        say(f"pod/{pod.metadata.name} {one.change.value}")
        applied.append(one)
        key = (one.pod.metadata.namespace, pod.metadata.name)
        if one.change is Change.CREATED and there.get(key) is False:
            note_earlier(*key)
        images = lacking.get(pod.metadata.name, []) if one.change is not Change.UNCHANGED else []
        for warning in (*warnings, *images, *await _missing_features(client, one, served)):
            warn(f"pod {pod.metadata.name}: {warning}")
        if one.silence:
            silent.setdefault((one.node, one.silence), []).append(one.pod.metadata.name)
        _note_other_node(pod.metadata.name, one.node, pod.spec.node_name or node)
    telling.cancel()
    for (where, silence), names in silent.items():
        warn(await _absence(client, names, where, silence, served))
    if failures:
        raise together(failures, done=bool(applied))
    return applied


def _note_other_node(name: str, node: str, wanted: str) -> None:
    """Print a note if an applied pod is on another node than the one that was requested."""
    if node != wanted:
        remark(f"Note: pod {name} stays on node {node}: it is on {wanted} only if it is deleted and applied again")


def _running_alone(admissions: Iterable[Admission]) -> dict[tuple[str, str], bool]:
    """Return which of these pods have an orphan of their name on this machine's node, by namespace and name. Blocks.

    True: the node's worker lists the orphan. False: the worker has ended, and the runtime has a pod of the name. That
    pod is an orphan only if the apply finds no workflow of the name.
    """
    names: dict[str, list[str]] = {}
    for pod, _ in admissions:
        names.setdefault(pod.metadata.namespace or "default", []).append(pod.metadata.name)
    is_sure = serving(settings().state_dir) is not None
    found = (one for namespace, of in names.items() for one in orphans_here(namespace, of))
    return {(str(one["metadata"]["namespace"]), str(one["metadata"]["name"])): is_sure for one in found}


async def _missing_features(client: Client, applied: Applied, served: Collection[str]) -> list[str]:
    """Return which fields of a new pod its node's runtime does not support, and why; [] if the node does not answer.

    Such a pod waits until these fields are removed. The node is queried only if a field needs support of the runtime.
    """
    if applied.change is not Change.CREATED or applied.silence or not depends_on_runtime(applied.pod):
        return []
    try:
        reasons = await Foresight(client, updates.PATIENCE_SECONDS, served).reasons(applied.pod, applied.node)
    except NodeUnanswered:
        return []
    return [reason for reason in reasons if reason.startswith("spec.")]


async def _note_slow_nodes(applying: Mapping[asyncio.Task[Applied], Pod], node: str) -> None:
    """Print a note, once, about the pods whose nodes have not answered for a while."""
    await asyncio.sleep(_NOTE_SECONDS)
    waiting = [pod for task, pod in applying.items() if not task.done()]
    if not waiting:
        return
    nodes = ", ".join(sorted({pod.spec.node_name or node for pod in waiting}))
    names = waiting[0].metadata.name if len(waiting) == 1 else f"{len(waiting)} pods"
    remark(f"Note: node {nodes} has not answered yet about {names}; it is waited for, up to half a minute")


async def _absence(client: Client, names: Sequence[str], node: str, silence: str, served: Collection[str]) -> str:
    """Return a sentence about pods whose node did not answer: when the pods start, and what the user can do."""
    one = names[0] if len(names) == 1 else "NAME"
    pods, start = (f"pod {one}", "starts") if len(names) == 1 else (f"pods {first_few(names)}", "start")
    if silence == BUSY:
        return f"{busy(node)}: {pods} {start} when it does"
    if node not in served and await never_served(client, (node,)):
        return (
            f"no worker has ever polled for node {node}: {pods} {start} when one does; if the node's name is wrong, "
            f"`syncpod delete pod {one} --force` takes the pod back"
        )
    return f"node {node} is away: {pods} {start} when its worker does (`syncpod up` there)"


async def _wait(client: Client, applied: list[Applied], timeout: timedelta | None, spent: timedelta) -> None:
    """Wait until the applied pods are up. Raises Failure for pods that are not up when the time is over.

    The limit is `timeout` less the time `spent` on applying; `timeout` None = no limit.
    """
    with Progress(last_words=last_words) as progress:
        left = max(timeout - spent, timedelta()) if timeout else None
        outcomes = await until_settled(client, applied, timeout=left, show=progress.show)
    good, bad = sentences(outcomes, timeout)
    for sentence in good:
        say(sentence)
    if bad:
        raise Failure("\n".join(bad))
