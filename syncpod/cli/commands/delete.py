"""``syncpod delete``: delete pods, and this machine's ConfigMaps and Secrets."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.arguments import named, read_dry_run, read_field_selector, read_selector, read_timeout
from syncpod.cli.input.kind_words import Kind
from syncpod.cli.input.manifests import named_in
from syncpod.cli.input.options import (
    AllNamespaces,
    DryRun,
    FieldConditions,
    Filenames,
    GracePeriod,
    IgnoreNotFound,
    NamespaceOrFiles,
    Selector,
    Things,
    Timeout,
    UntilGone,
)

if TYPE_CHECKING:
    import asyncio

    from temporalio.client import Client

    from syncpod.api.field_selector import FieldSelector
    from syncpod.api.label_selector import Selector as Conditions
    from syncpod.cli.fetched import FetchedPod
    from syncpod.objects import ObjectRef

_UNSERVED_SECONDS: Final = 15.0
"""How long a worker of this machine's node may be missing until its pods are not waited for: one that is being started
anew is there sooner."""
_LOOK_SECONDS: Final = 1.0


def delete(
    what: Things = None,
    filename: Filenames = None,
    selector: Selector = "",
    everything: Annotated[bool, typer.Option("--all", help="All of that kind in the namespace.")] = False,
    namespace: NamespaceOrFiles = "",
    all_namespaces: AllNamespaces = False,
    grace_period: GracePeriod = -1,
    now: Annotated[bool, typer.Option("--now", help="Same as --grace-period=1.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Kill at once, without a grace period; on a node that is away, free the name at least."
        ),
    ] = False,
    wait: UntilGone = True,
    timeout: Timeout = "0",
    ignore_not_found: IgnoreNotFound = False,
    dry_run: DryRun = "none",
    field_selector: FieldConditions = "",
) -> None:
    """Delete pods, ConfigMaps and Secrets.

    As with kubectl: `delete web`, `delete pod/web`, `delete cm settings`, `delete secret/keys`.

    Containers are stopped with the pod's grace period, and nothing of the pod is left on the node. A running container
    keeps what it was given of a ConfigMap or Secret; one that starts later waits until the object exists again.

    After five seconds it says on standard error what each pod waits for.
    """
    things = named(what or [])
    conditions = read_selector(selector)
    fields = _fields(field_selector, of_pods=set(things) == {"Pod"})
    selects = bool(conditions.requirements or fields.fields)
    ways = [any(things.values()), bool(filename), selects or everything or all_namespaces]
    if sum(ways) != 1 or (filename and what):
        raise BadInput("say what to delete, in one of these ways: NAME..., -f FILE, -l SELECTOR or --all")
    if not (what or filename or selects):
        raise _without_kind("--all" if everything else "--all-namespaces")
    how = _How(
        mark=read_dry_run(dry_run),
        grace=_grace(grace_period, now=now, force=force),
        force=force,
        wait=wait,
        patience=read_timeout(timeout),
        ignore_not_found=ignore_not_found,
        all_or_none=_are_bare(what or [], things),
    )
    scope = None if all_namespaces else namespace or "default"
    pods, objects = _wanted(things, filename, namespace, scope, conditions)

    async def work(client: Client) -> None:
        await _delete_pods(client, await _selected(client, scope, conditions, fields) if pods is None else pods, how)

    _delete(work if pods is None or pods else None, objects, how)
    if not objects and pods == []:
        remark("No resources found")


def _fields(text: str, *, of_pods: bool) -> FieldSelector:
    fields = read_field_selector(text, of_pods=of_pods)
    if fields.fields and not of_pods:
        raise BadInput("--field-selector: only pods are deleted by their fields")
    return fields


def _are_bare(words: Sequence[str], things: dict[Kind, list[str]]) -> bool:
    """Say whether several words are pods' names without a kind."""
    return len(words) > 1 and things == {"Pod": list(dict.fromkeys(words))}


def _without_kind(flag: str) -> BadInput:
    """Return the error that asks for a kind: as with kubectl, ``--all`` alone does not name one."""
    return BadInput(f"{flag}: say of which kind: `syncpod delete pods {flag}`, or configmaps, or secrets")


@dataclass(frozen=True)
class _How:
    """How things are deleted."""

    mark: str
    """Printed after each line of a dry run; "" if this is not a dry run."""
    grace: int | None
    """Seconds; None = each pod's own."""
    force: bool
    """Whether a pod ends although no worker serves its node."""
    wait: bool
    """Whether to wait until the pods are gone."""
    patience: timedelta | None
    """How long; None = as long as it takes."""
    ignore_not_found: bool
    all_or_none: bool
    """Whether nothing is deleted if a name is unknown: names without a kind, and the first may be one, misspelt."""


def _delete(
    pods: Callable[[Client], Coroutine[Any, Any, None]] | None, objects: Sequence[ObjectRef], how: _How
) -> None:
    """Delete pods, with the work to run on the server, and then objects; a failure of one does not stop the other."""
    from syncpod.cli.several import together

    deeds: list[Callable[[], None]] = []
    if pods is not None:
        from syncpod.cli.temporal import session

        deeds.append(lambda: session.run(pods))
    if objects:
        from syncpod.cli.machine.object_store import delete_objects

        deeds.append(lambda: delete_objects(objects, ignore_not_found=how.ignore_not_found, mark=how.mark))
    failures = [failure for deed in deeds for failure in _failure_of(deed)]
    if failures:
        raise together(failures, done=len(failures) < len(deeds))


def _failure_of(deed: Callable[[], None]) -> list[Failure]:
    """Do one part; return its failure, if any, so that it stops no other part."""
    try:
        deed()
    except Failure as failure:
        return [failure]
    return []


def _wanted(
    things: dict[Kind, list[str]],
    filename: list[str] | None,
    namespace: str,
    scope: str | None,
    conditions: Conditions,
) -> tuple[list[tuple[str, str]] | None, list[ObjectRef]]:
    """Return the named pods and objects; None = the pods that are selected. Raises BadInput, Failure."""
    if filename:
        return named_in(filename, namespace)
    pods: list[tuple[str, str]] | None = []
    objects: list[ObjectRef] = []
    for kind, names in things.items():
        if kind == "Pod":
            pods = [(namespace or "default", name) for name in names] if names else None
            continue
        from syncpod.cli.machine.object_store import find
        from syncpod.objects import ObjectRef, ref_of

        if names:
            objects += [ObjectRef(kind, namespace or "default", name) for name in names]
        else:
            objects += [ref_of(one) for one in find(kind, (), scope, conditions)[0]]
    return pods, objects


async def _delete_pods(client: Client, pods: Sequence[tuple[str, str]], how: _How) -> None:
    """Delete pods, given by namespace and name, all at once. Raises Failure for missing ones, and on a timeout.

    The request is a signal: Temporal keeps it even while the pod's node is away. By force, a pod
    whose node is away ends without it.
    """
    import asyncio

    from syncpod.cli.orphans import orphan_of
    from syncpod.cli.several import together
    from syncpod.cli.temporal.pod_deletion import remark_on_source, request_deletion
    from syncpod.cli.temporal.pods import not_found, read_pod, read_pods

    if not pods:
        remark("No resources found")
        return
    if how.all_or_none and not how.ignore_not_found:
        there = await read_pods(client, pods)
        if unknown := [pod for pod, fetched in zip(pods, there, strict=True) if fetched is None]:
            lines = [str(not_found(name, namespace)) for namespace, name in unknown]
            lines.append("nothing was deleted: a kind before names is one of pod, configmap or secret")
            raise Failure("\n".join(lines))

    async def begin(pod: tuple[str, str]) -> FetchedPod | Failure | None:
        try:
            return await (read_pod(client, *pod) if how.mark else request_deletion(client, *pod, how.grace))
        except Failure as failure:  # the other pods are deleted all the same
            return failure

    begun = await asyncio.gather(*map(begin, pods))
    missing = [pod for pod, fetched in zip(pods, begun, strict=True) if fetched is None]
    ending = [fetched for fetched in begun if fetched is not None and not isinstance(fetched, Failure)]
    refused = [failure for failure in begun if isinstance(failure, Failure)]
    verb = "force deleted" if how.force else "deleted"
    for fetched in ending:
        say(f'pod "{fetched.pod.metadata.name}" {verb}{how.mark}')
        remark_on_source(fetched)
    if not how.mark:
        ending, said = await _answering(client, ending, how)
        if how.wait:
            await _until_gone(client, ending, how.patience, said)
    if how.ignore_not_found:  # one that runs without a workflow is there
        missing = [pod for pod in missing if await asyncio.to_thread(orphan_of, *pod) is not None]
    refused += [not_found(name, namespace) for namespace, name in missing]
    if refused:
        raise together(refused, done=len(refused) < len(pods))


def _grace(seconds: int, *, now: bool, force: bool) -> int | None:
    """Return the grace period to request, None = the pod's own, by kubectl's rules (cmd/delete, v1.36)."""
    if seconds < -1:
        raise BadInput("--grace-period: must be 0 or more seconds")
    if now and (force or seconds != -1):
        raise BadInput("--now means a grace of 1 second: leave out --grace-period and --force")
    if now:
        return 1
    if force and seconds > 0:
        raise BadInput("--force means no grace: leave out --grace-period, or make it 0")
    if force:
        return 0
    if seconds == 0:
        remark("Note: without --force, a grace period of 0 means 1 second")
        return 1
    return None if seconds == -1 else seconds


async def _selected(
    client: Client, namespace: str | None, conditions: Conditions, fields: FieldSelector
) -> list[tuple[str, str]]:
    from syncpod.cli.temporal.pods import list_pods

    fetched_pods = await list_pods(client, namespace, conditions)
    return [one.key for one in fetched_pods if not fields.fields or fields.matches(one.document)]


async def _answering(
    client: Client, ending: Sequence[FetchedPod], how: _How
) -> tuple[list[FetchedPod], dict[tuple[str, str], str]]:
    """Return the pods to wait for, and why those do not end that do not answer; a note says it.

    By force, those that have never run, or whose node is away, are ended here, and not returned.
    """
    import asyncio

    from syncpod.cli.strays.forced_deletion import leave_order
    from syncpod.cli.temporal.unserved import end_if_never_run, end_without_node, never_served

    silent = [fetched for fetched in ending if not fetched.current]
    if how.force:
        gone = [one.key for one in silent if await end_if_never_run(client, one)]
        ending = [fetched for fetched in ending if fetched.key not in gone]
        silent = [fetched for fetched in silent if fetched.key not in gone]
        left = [one for one in silent if await end_without_node(client, one)]
        for one in left:
            remark(f"Note: {_ended_without_node(one, is_ordered=await asyncio.to_thread(leave_order, one))}")
        ending = [fetched for fetched in ending if fetched not in left]
        silent = [fetched for fetched in silent if fetched not in left]
    unserved = await never_served(client, (fetched.pod.spec.node_name or "" for fetched in silent))
    for node in unserved:
        names = ", ".join(one.pod.metadata.name for one in silent if one.pod.spec.node_name == node)
        remark(f"Note: no worker has ever polled for node {node}, so nothing ends {names} there; --force ends it here")
    said = _noted([fetched for fetched in silent if fetched.pod.spec.node_name not in unserved], how)
    return list(ending), said


def _ended_without_node(one: FetchedPod, *, is_ordered: bool) -> str:
    """Say what becomes of a pod whose workflow has ended while its node is away.

    `is_ordered`: the node has the order to end it in its records.
    """
    from syncpod.cli.orphans import way_for

    where, name = one.pod.spec.node_name, one.pod.metadata.name
    ended = f"node {where} is away, so pod {name} has ended without it: its name is free"
    if is_ordered:
        return (
            f"{ended}, and the order to end what runs of it there is in the node's records: its worker ends it as soon "
            f"as it is back (`{shlex.quote(program())} up`)"
        )
    return (
        f"{ended}, but what runs of it there goes on: that node's worker ends it once it is back, unless it takes only "
        f"signed commands, as every node of `up` does; then {way_for('prune', [one.document])} there ends it"
    )


def _noted(silent: Sequence[FetchedPod], how: _How) -> dict[tuple[str, str], str]:
    """Return why these pods do not end, which did not answer; one note says it for all of one reason, with the ways."""
    from syncpod.cli.temporal.pod_deletion import why_silent_pod_is_left

    why = {one.key: why_silent_pod_is_left(one) for one in silent}
    away = {why[one.key] for one in silent if not one.lives and not one.stuck}
    for reason in dict.fromkeys(why.values()):
        of_it = [one.pod.metadata.name for one in silent if why[one.key] == reason]
        which = f"pod {of_it[0]}" if len(of_it) == 1 else f"{len(of_it)} pods"
        by_force = f"--force ends {'the pod without its node' if len(of_it) == 1 else 'them without it'}"
        ways = [(how.wait, "Ctrl-C ends only this wait"), (not how.force, by_force)]
        more = "".join(f"; {way}" for is_open, way in ways if is_open) if reason in away else ""
        remark(f"Note: {which}: {reason}{more}")
    return why


async def _until_gone(
    client: Client, ending: list[FetchedPod], patience: timedelta | None, said: dict[tuple[str, str], str]
) -> None:
    """Wait until the pods are gone, saying what lasts. Raises Failure with what each pod that is left waits for.

    `said` has the reasons that are printed already, by namespace and name; none is printed twice. It also raises when
    only pods of this machine's node are left, and nobody runs its worker: that may never change.
    """
    import asyncio

    from syncpod.cli.temporal.pod_deletion import tell_what_lasts, why_left
    from syncpod.cli.temporal.pod_waits import until_gone

    waits = {
        asyncio.create_task(until_gone(client, *fetched.key, fetched.pod.metadata.uid)): fetched for fetched in ending
    }
    if not waits:
        return
    telling = asyncio.create_task(tell_what_lasts(client, waits, said))
    left_alone = asyncio.create_task(_until_left_alone(waits))
    all_gone = asyncio.gather(*waits, return_exceptions=True)
    try:
        seconds = patience.total_seconds() if patience else None
        ends: set[asyncio.Future[Any]] = {all_gone, left_alone}
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        telling.cancel()
        left_alone.cancel()
    pending = [task for task in waits if not task.done()]
    for task in pending:
        task.cancel()
    for task in waits.keys() - set(pending):
        task.result()
    if pending:
        left = await why_left(client, (waits[task] for task in pending))
        is_alone = left_alone.done() and not left_alone.cancelled()
        raise Failure("\n".join([_still_there(left, is_alone=is_alone), *_news(left, said)]))


def _still_there(left: Sequence[tuple[FetchedPod, str]], *, is_alone: bool) -> str:
    """Return that these pods, each with the reason, are not gone, and what becomes of their deletions."""
    from syncpod.cli.temporal.pod_deletion import DELETION_IS_KEPT

    names = ", ".join(f'"{fetched.pod.metadata.name}"' for fetched, _ in left)
    if is_alone:
        return f"no worker serves this node, so nothing ends {names} now"
    fate = "the deletion is kept" if all(DELETION_IS_KEPT in why for _, why in left) else "the deletion continues"
    return f"timed out waiting for {names} to end; {fate}"


def _news(left: Sequence[tuple[FetchedPod, str]], said: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the reasons of these pods that are not printed yet, a line each."""
    return [f'pod "{one.pod.metadata.name}": {why}' for one, why in left if said.get(one.key) != why]


async def _until_left_alone(waits: Mapping[asyncio.Task[None], FetchedPod]) -> None:
    """Wait until only pods of this machine's node are left, and it has had no worker for a while."""
    import asyncio

    from syncpod.cli.machine.settings import settings
    from syncpod.settings.worker_record import read_worker_record, serving

    state_dir, loop = settings().state_dir, asyncio.get_running_loop()
    since = loop.time()
    while loop.time() < since + _UNSERVED_SECONDS:
        nodes = {fetched.pod.spec.node_name for task, fetched in waits.items() if not task.done()}
        ours = await asyncio.to_thread(read_worker_record, state_dir)
        if ours is None or nodes != {ours.node} or await asyncio.to_thread(serving, state_dir) is not None:
            since = loop.time()
        await asyncio.sleep(_LOOK_SECONDS)
