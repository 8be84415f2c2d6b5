"""Explains the state of a pod or a node of a fleet, from the journal of the node or the fleet's own records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.console import remark, say
from syncpod.cli.failure import Failure
from syncpod.cli.fleet_remote_commands import (
    Silent,
    needs_journal,
    output_on,
    output_on_all,
    print_output,
    print_there,
)
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.temporal import fleet, fleet_workloads
from syncpod.cli.temporal.fleet_pods import NotInFleet, NotTaken, OnNoNode, find_pod, require_taken
from syncpod.cli.temporal.fleet_unheard import unheard
from syncpod.cli.view import untaken_pod
from syncpod.cli.view.unheard_pod import explained, explained_document, explained_node, explained_node_document
from syncpod.cli.view.untaken_pod import explained_without_node
from syncpod.cli.view.without_pods import lines, without_pods
from syncpod.fleet.workload_traits import TEMPLATED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.view.unheard_pod import UnheardPod
    from syncpod.messages.fleet import FleetNodeView, PlacedPod
    from syncpod.messages.workload import WorkloadView


def explain_node_of_fleet(name: str, flags: Sequence[str], state_dir: str) -> None:
    """Print the explanation of a node; `flags` are those of its own `explain`. Raises BadInput, Failure."""
    fleet.run(lambda client: explain_node(client, name, flags), state_dir=state_dir)


def explain_pod_of_fleet(words: Sequence[str], namespace: str, node: str, flags: Sequence[str], state_dir: str) -> None:
    """Print the explanation of the pod, or the pod of a workload, that `words` name. Raises BadInput, Failure.

    `node` is where it is; "" = anywhere. `flags` are those of the node's own `explain`, without the namespace.
    """
    of_pod = [f"--namespace={namespace}", *flags]
    fleet.run(lambda client: explain_pod(client, words, namespace, node, of_pod), state_dir=state_dir)


async def explain_node(client: Client, name: str, flags: Sequence[str]) -> None:
    """Print the explanation of a node, from its own journal, or from what the fleet knows of it. Raises Failure."""
    node, is_json = await fleet.view(client, name), "--output=json" in flags
    if node.presence == "Unknown" and not needs_journal(flags):
        _print_known_node(node, is_json=is_json)
        return
    try:
        await print_there(client, node, ["explain", "node", *flags])
    except Silent as silent:
        if needs_journal(flags):
            raise
        _print_known_node(node, str(silent), is_json=is_json)


async def explain_pod(client: Client, words: Sequence[str], namespace: str, node: str, flags: Sequence[str]) -> None:
    """Print the explanation of the pod's node, or of each node that had such a pod. Raises Failure.

    The fleet's own records are of now: with flags for a part of the past, only journals answer.
    """
    of_the_past = needs_journal(flags)
    if await _explain_failed(client, words, namespace, node, flags):
        return
    try:
        found = await find_pod(client, words, namespace, node, unwell=True)
        if not of_the_past and found.placed is not None and not found.placed.refusal:  # a node's own pod may be meant
            require_taken(found)
    except OnNoNode as waits:
        if of_the_past:
            raise
        _print_on_no_node(waits, namespace, is_json="--output=json" in flags)
        return
    except NotTaken as untaken:
        _print_untaken(untaken.node, untaken.placed, is_json="--output=json" in flags)
        return
    except NotInFleet as missing:
        kind, name = kind_and_name(words)
        if kind in TEMPLATED:
            if node or of_the_past:
                raise
            (workload,) = await fleet_workloads.views(client, kind, namespace, [name])
            _print_without_pods(workload, is_json="--output=json" in flags)
            return
        await _explain_on_all(client, await fleet.views(client), ["explain", name, *flags], missing)
        return
    if not of_the_past and (pod := await unheard(client, found)) is not None:
        _print_known(pod, is_json="--output=json" in flags)
        return
    try:
        await print_there(client, found.node, ["explain", found.name, *flags])
    except Silent as silent:
        if of_the_past or (pod := await unheard(client, found, silent=str(silent))) is None:
            raise
        _print_known(pod, is_json="--output=json" in flags)


def _print_known(pod: UnheardPod, *, is_json: bool) -> None:
    """Print the fleet's own records of a pod whose node does not answer."""
    now = datetime.now(UTC)
    say(json.dumps(explained_document(pod, now), indent=4) if is_json else "\n".join(explained(pod, now)))


def _print_known_node(node: FleetNodeView, silent: str = "", *, is_json: bool) -> None:
    """Print the fleet's own records of a node that is Unknown, or that did not answer for the reason `silent`."""
    now = datetime.now(UTC)
    known = explained_node_document(node, now, silent) if is_json else explained_node(node, now, silent)
    say(json.dumps(known, indent=4) if isinstance(known, dict) else "\n".join(known))


async def _explain_failed(
    client: Client, words: Sequence[str], namespace: str, node: str, flags: Sequence[str]
) -> bool:
    """Explain the pod whose failure rolled back a workload's newest template; return whether it was explained.

    The pod has usually been removed since. If its node does not answer, or has no record of it, a note is printed, and
    the result is False. Raises Failure.
    """
    kind, name = kind_and_name(words)
    workload = await fleet_workloads.view(client, kind, namespace, name) if kind in TEMPLATED else None
    newest = workload.history[-1] if workload is not None and workload.history else None
    if newest is None or not newest.given_up:
        return False
    remark(f"Note: {kind.lower()} {name} was rolled back: {newest.given_up}")
    pod, where = newest.failed_pod, newest.failed_on
    if not pod or node not in ("", where):
        return False
    try:
        code, out, err = await output_on(client, await fleet.view(client, where), ["explain", pod, *flags])
    except Failure as failure:
        code, out, err = 1, "", str(failure)
    if code > 1:
        raise Failure(err.strip().removeprefix("syncpod: "), code)
    if code:
        remark(f"Note: pod {pod} cannot be explained: {err.strip().removeprefix('syncpod: ')}")
        return False
    print_output(out, err)
    return True


def _print_untaken(node: FleetNodeView, pod: PlacedPod, *, is_json: bool) -> None:
    """Print why a node has not taken a pod that is placed on it; the node's journal has nothing about the pod."""
    now = datetime.now(UTC)
    if is_json:
        say(json.dumps(untaken_pod.explained_document(node, pod, now), indent=4))
    else:
        say("\n".join(untaken_pod.explained(node, pod, now)))


def _print_on_no_node(waits: OnNoNode, namespace: str, *, is_json: bool) -> None:
    """Print why no node has a pod yet."""
    if not is_json:
        say("\n".join(explained_without_node(namespace, waits.pod, waits.why)))
        return
    named = {"kind": "Pod", "namespace": namespace, "name": waits.pod.name, "node": waits.pod.node}
    say(json.dumps({**named, "status": "Pending", "why": [waits.why]}, indent=4))


def _print_without_pods(workload: WorkloadView, *, is_json: bool) -> None:
    """Print why no node has a pod of a workload."""
    if not is_json:
        say("\n".join(lines(workload)))
        return
    found = without_pods(workload)
    named = {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
    say(json.dumps({**named, "pods": [], "why": list(found.why), "next": found.next}, indent=4))


async def _explain_on_all(client: Client, nodes: Sequence[FleetNodeView], words: list[str], missing: Failure) -> None:
    """Print the explanation of each node whose journal has the pod, and a note for each node that did not answer.

    Raises Failure if no journal has the pod.
    """
    answers, silent = 0, []
    for node, answer in await output_on_all(client, nodes, words):
        if isinstance(answer, Failure):
            silent.append(f"Note: {answer}")
        elif answer[0] == 0:
            remark(f"Note: the pod is gone; this is from the journal of node {node.name}")
            say(answer[1].removesuffix("\n"))
            answers += 1
        elif answer[0] != 1:
            raise Failure(answer[2].strip().removeprefix("syncpod: "), answer[0])
    for sentence in silent:
        remark(sentence)
    if not answers:
        asked = len(nodes) - len(silent)
        journals = "journal of the one node that was" if asked == 1 else f"journals of {asked} nodes that were"
        raise Failure(f"{str(missing).partition(';')[0]}, nor in the {journals} asked")
