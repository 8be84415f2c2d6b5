"""``syncpod fleet explain``: why a pod or a node of the fleet is as it is, from the journal of the node."""

from __future__ import annotations

from syncpod.cli.commands import explain as local
from syncpod.cli.failure import BadInput
from syncpod.cli.input.fleet_names import kind_and_name
from syncpod.cli.input.kind_words import NODE_WORDS
from syncpod.cli.input.options import Namespace, OfNode, OnlyJson, StateDir, Things


def explain(
    what: Things = None,
    namespace: Namespace = "default",
    node: OfNode = "",
    output: OnlyJson = "",
    at: local.At = None,
    since: local.Since = None,
    uid: local.Uid = "",
    start: local.Start = False,
    restart: local.Restart = None,
    container: local.OfContainer = "",
    trace: local.Trace = False,
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
    numbered = {"--at": at, "--since": since, "--restart": restart}
    if placement:
        others = {"--node": node, "--uid": uid, "--start": start, "--container": container, "--trace": trace}
        given = [flag for flag, value in numbered.items() if value is not None]
        given += [flag for flag, value in others.items() if value]

        from syncpod.cli.actions.explain_placement import explain_placement

        explain_placement(what, namespace, output, given, state_dir)
        return
    # A flag such as --at is sent even with an empty value: the node's error says what is valid.
    texts = {"--output": output, "--uid": uid, "--container": container}
    flags = [f"{flag}={text}" for flag, text in texts.items() if text]
    flags += [f"{flag}={value}" for flag, value in numbered.items() if value is not None]
    flags += ["--start"] if start else []
    flags += ["--trace"] if trace else []
    words = [part for word in what or [] for part in word.split("/", 1)]
    is_node = bool(words) and words[0] in NODE_WORDS
    if is_node and len(words) != 2:
        raise BadInput("NODE: name one: syncpod fleet explain node n1")
    if not is_node:
        kind_and_name(words)

    from syncpod.cli.actions.fleet_explain import explain_node_of_fleet, explain_pod_of_fleet

    if is_node:
        explain_node_of_fleet(words[1], flags, state_dir)
    else:
        explain_pod_of_fleet(words, namespace, node, flags, state_dir)
