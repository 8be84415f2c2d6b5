"""``syncpod fleet explain``: why a pod or a node of the fleet is as it is, from the journal of the node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.commands import explain as local
from syncpod.cli.commands.explain_placement import explain_placement
from syncpod.cli.console import remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.input.options import Namespace, OfNode, OnlyJson, StateDir, Things
from syncpod.fleet.workload_traits import TEMPLATED

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.fleet_pods import OnNoNode
    from syncpod.cli.view.unheard_pod import UnheardPod
    from syncpod.messages.fleet import FleetNodeView, PlacedPod
    from syncpod.messages.workload import WorkloadView


def explain(
    what: Things = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    output: OnlyJson = "",
    at: local.At = None,
    since: local.Since = None,
    start: local.Start = False,
    restart: local.Restart = None,
    container: local.OfContainer = "",
    placement: local.Placement = False,
    state_dir: StateDir = "",
) -> None:
    """Explain the state of a pod of the fleet, and what happens next: `explain web`, `explain deployment/web`.

    The answer comes from the journal of the pod's node, as from `syncpod explain` there, with times in the node's time
    zone. For a pod that is gone, the journals of all nodes are searched. For a workload whose newest template was
    rolled back, the answer is about the pod that failed; for another workload, about a pod that is not well, if there
    is one. The fleet's own records answer for a workload without pods, for a pod that no node has yet, and for a pod
    whose node is Unknown: they also have what the fleet does next. `explain node n1` is about a node.

    With --placement the fleet's placement rules are applied to each node as it is now. That works for a pod on a node,
    for a pod that is on no node yet, and for the next pod of a workload. The pod itself is not counted on its node.
    """
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.fleet_pods import kind_and_name

    numbered = {"--at": at, "--since": since, "--restart": restart}
    if placement:
        others = {"--node": node, "--start": start, "--container": container}
        given = [flag for flag, value in numbered.items() if value is not None]
        given += [flag for flag, value in others.items() if value]
        explain_placement(what, namespace, output, given, state_dir)
        return
    # A flag such as --at is sent even with an empty value: the node's error says what is valid.
    flags = [f"{flag}={text}" for flag, text in (("--output", output), ("--container", container)) if text]
    flags += [f"{flag}={value}" for flag, value in numbered.items() if value is not None]
    flags += ["--start"] if start else []
    words = [part for word in what or [] for part in word.split("/", 1)]
    if words[:1] and words[0] in NODE_WORDS:
        if len(words) != 2:
            raise BadInput("NODE: name one: syncpod fleet explain node n1")
        fleet.run(lambda client: _explain_node(client, words[1], flags), state_dir=state_dir)
        return
    kind_and_name(words)
    of_pod = [f"--namespace={namespace}", *flags]
    fleet.run(lambda client: _explain_pod(client, words, namespace, node, of_pod), state_dir=state_dir)


async def _explain_node(client: Client, name: str, flags: Sequence[str]) -> None:
    from syncpod.cli.fleet_remote_commands import Silent, asks_for_the_past, print_there
    from syncpod.cli.temporal import fleet

    node, is_json = await fleet.view(client, name), "--output=json" in flags
    if node.presence == "Unknown" and not asks_for_the_past(flags):
        _say_what_is_known_of_node(node, is_json=is_json)
        return
    try:
        await print_there(client, node, ["explain", "node", *flags])
    except Silent as silent:
        if asks_for_the_past(flags):
            raise
        _say_what_is_known_of_node(node, str(silent), is_json=is_json)


async def _explain_pod(client: Client, words: Sequence[str], namespace: str, node: str, flags: Sequence[str]) -> None:
    """Print the explanation of the pod's node, or of each node that had such a pod. Raises Failure."""
    from syncpod.cli.fleet_remote_commands import Silent, asks_for_the_past, print_there
    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.temporal.fleet_pods import NotInFleet, OnNoNode, find_pod, kind_and_name
    from syncpod.cli.temporal.fleet_unheard import unheard

    if await _explain_failed(client, words, namespace, node, flags):
        return
    try:
        found = await find_pod(client, words, namespace, node, unwell=True)
    except OnNoNode as waits:
        _say_why_on_no_node(waits, namespace, is_json="--output=json" in flags)
        return
    except NotInFleet as missing:
        kind, name = kind_and_name(words)
        if kind in TEMPLATED:
            if node:
                raise
            (workload,) = await fleet_workloads.views(client, kind, namespace, [name])
            _say_why_none(workload, is_json="--output=json" in flags)
            return
        await _ask_all(client, await fleet.views(client), ["explain", name, *flags], missing)
        return
    if found.placed is not None and found.placed.is_untaken:
        _say_why_untaken(found.node, found.placed, is_json="--output=json" in flags)
        return
    if not asks_for_the_past(flags) and (pod := await unheard(client, found)) is not None:
        _say_what_is_known(pod, is_json="--output=json" in flags)
        return
    try:
        await print_there(client, found.node, ["explain", found.name, *flags])
    except Silent as silent:
        if asks_for_the_past(flags) or (pod := await unheard(client, found, silent=str(silent))) is None:
            raise
        _say_what_is_known(pod, is_json="--output=json" in flags)


def _say_what_is_known(pod: UnheardPod, *, is_json: bool) -> None:
    """Print the fleet's own records of a pod whose node does not answer."""
    from syncpod.cli.view.unheard_pod import explained, explained_document

    now = datetime.now(UTC)
    say(json.dumps(explained_document(pod, now), indent=4) if is_json else "\n".join(explained(pod, now)))


def _say_what_is_known_of_node(node: FleetNodeView, silent: str = "", *, is_json: bool) -> None:
    """Print the fleet's own records of a node that is Unknown, or that did not answer for the reason `silent`."""
    from syncpod.cli.view.unheard_pod import explained_node, explained_node_document

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
    from syncpod.cli.fleet_remote_commands import print_said, said_there
    from syncpod.cli.temporal import fleet, fleet_workloads
    from syncpod.cli.temporal.fleet_pods import kind_and_name

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
        code, out, err = await said_there(client, await fleet.view(client, where), ["explain", pod, *flags])
    except Failure as failure:
        code, out, err = 1, "", str(failure)
    if code > 1:
        raise Failure(err.strip().removeprefix("syncpod: "), code)
    if code:
        remark(f"Note: pod {pod} cannot be explained: {err.strip().removeprefix('syncpod: ')}")
        return False
    print_said(out, err)
    return True


def _say_why_untaken(node: FleetNodeView, pod: PlacedPod, *, is_json: bool) -> None:
    """Print why a node has not taken a pod that is placed on it; the node's journal has nothing about the pod."""
    from syncpod.cli.view.untaken_pod import explained, explained_document

    now = datetime.now(UTC)
    say(json.dumps(explained_document(node, pod, now), indent=4) if is_json else "\n".join(explained(node, pod, now)))


def _say_why_on_no_node(waits: OnNoNode, namespace: str, *, is_json: bool) -> None:
    """Print why no node has a pod yet."""
    from syncpod.cli.view.untaken_pod import explained_without_node

    if not is_json:
        say("\n".join(explained_without_node(namespace, waits.pod, waits.why)))
        return
    named = {"kind": "Pod", "namespace": namespace, "name": waits.pod.name, "node": waits.pod.node}
    say(json.dumps({**named, "status": "Pending", "why": [waits.why]}, indent=4))


def _say_why_none(workload: WorkloadView, *, is_json: bool) -> None:
    """Print why no node has a pod of a workload."""
    from syncpod.cli.view.without_pods import lines, without_pods

    if not is_json:
        say("\n".join(lines(workload)))
        return
    found = without_pods(workload)
    named = {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
    say(json.dumps({**named, "pods": [], "why": list(found.why), "next": found.next}, indent=4))


async def _ask_all(client: Client, nodes: Sequence[FleetNodeView], words: list[str], missing: Failure) -> None:
    """Print the explanation of each node whose journal has the pod, and a note for each node that did not answer.

    Raises Failure if no journal has the pod.
    """
    from syncpod.cli.fleet_remote_commands import said_by_all

    answers, silent = 0, []
    for node, answer in await said_by_all(client, nodes, words):
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
