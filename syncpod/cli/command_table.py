"""All commands, with their summaries and modules. Help and completion read this table without importing a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

COMPLETE: Final = "__complete"
"""The hidden command that the shells' scripts call, with all words up to the cursor."""


class Entry(NamedTuple):
    """One command, or a group of commands."""

    panel: str
    """The heading under which ``--help`` lists it."""
    summary: str
    """The first sentence of the command's own help."""
    module: str = ""
    """Its module in `syncpod.cli.commands`; "" = it is a group that has a table of its own, in `TABLES`."""
    function: str = ""
    """Its function there, or its group of commands."""


_PODS: Final = "Pods"
_HERE: Final = "This machine"
_NODES: Final = "Nodes"
_FLEET: Final = "Fleet"
_OTHER: Final = "Other"

COMMANDS: Final[dict[str, Entry]] = {
    "apply": Entry(_PODS, "Create or change pods, ConfigMaps and Secrets.", "apply", "apply"),
    "run": Entry(_PODS, "Make a pod of one container, and run it.", "run", "run"),
    "get": Entry(_PODS, "List pods, nodes, or this machine's ConfigMaps and Secrets.", "get", "get"),
    "describe": Entry(_PODS, "Show a pod in full: state, conditions, events, steps.", "describe", "describe"),
    "tree": Entry(_PODS, "Draw nodes, pods and containers, and what each waits for.", "tree", "tree"),
    "logs": Entry(_PODS, "Print the logs of a pod's containers.", "logs", "logs"),
    "exec": Entry(_PODS, "Run a command in a container; its exit code is passed on.", "exec", "exec_"),
    "attach": Entry(_PODS, "Show a running container's output, or type into it.", "attach", "attach_"),
    "port-forward": Entry(_PODS, "Forward local ports to a pod, until Ctrl-C.", "port_forward", "port_forward"),
    "cp": Entry(_PODS, "Copy files and directories to and from containers.", "cp", "cp"),
    "debug": Entry(_PODS, "Debug a running pod from a container of its own.", "debug", "debug"),
    "explain": Entry(_PODS, "Explain a pod's state, its causes, and what happens next.", "explain", "explain"),
    "history": Entry(_PODS, "Show each decision, step, signal and exit of a pod.", "history", "history"),
    "replay": Entry(_PODS, "Replay a pod's decisions with the code at hand.", "replay", "replay"),
    "events": Entry(_PODS, "List the events of pods, the newest last.", "events", "events"),
    "plan": Entry(_PODS, "Show what an apply would do, without doing it.", "plan", "plan"),
    "wait": Entry(_PODS, "Wait until pods meet a condition.", "wait", "wait"),
    "resize": Entry(_PODS, "Change the CPU and memory of a running pod in place.", "resize", "resize"),
    "edit": Entry(_PODS, "Change a pod in an editor.", "edit", "edit"),
    "patch": Entry(_PODS, "Change fields of a pod.", "patch", "patch"),
    "label": Entry(_PODS, "Set and remove labels of pods.", "label", "label"),
    "annotate": Entry(_PODS, "Set and remove annotations of pods.", "label", "annotate"),
    "restart": Entry(_PODS, "Restart a pod's containers, or one of them.", "restart", "restart"),
    "retry": Entry(_PODS, "Retry now what a pod is waiting to retry.", "retry", "retry"),
    "condition": Entry(_PODS, "Set a condition of a pod: True, False or Unknown.", "condition", "condition"),
    "delete": Entry(_PODS, "Delete pods, ConfigMaps and Secrets.", "delete", "delete"),
    "up": Entry(_HERE, "Start server, runtime and worker, and bring pods up.", "up", "up"),
    "down": Entry(_HERE, "Delete this node's pods, and end what `up` started.", "down", "down"),
    "install": Entry(_HERE, "Have systemd serve this machine's node, also after a reboot.", "install", "install"),
    "uninstall": Entry(_HERE, "Remove the systemd units of this machine's node.", "install", "uninstall"),
    "server": Entry(_HERE, "Run the Temporal dev server until Ctrl-C.", "server", "server"),
    "runtime": Entry(_HERE, "Run the embedded runtime until Ctrl-C.", "runtime", "runtime"),
    "load": Entry(_HERE, "Load images from files into the embedded runtime.", "runtime", "load"),
    "worker": Entry(_HERE, "Serve this machine as a node until Ctrl-C.", "worker", "worker"),
    "node": Entry(_HERE, "Show this machine's node: worker, conditions, housekeeping.", "node", "node"),
    "env": Entry(_HERE, "Print the environment for `temporal` and `tctl`.", "env", "env"),
    "adopt": Entry(_HERE, "Start a workflow for pods that run without one.", "adopt", "adopt"),
    "prune": Entry(_HERE, "Kill and remove pods and containers without a workflow.", "prune", "prune"),
    "cordon": Entry(_NODES, "Mark a node as unschedulable: it takes no new pods.", "drain", "cordon"),
    "uncordon": Entry(_NODES, "Mark a node as schedulable: it takes new pods again.", "drain", "uncordon"),
    "drain": Entry(_NODES, "Drain nodes: cordon them, and end their pods.", "drain", "drain"),
    "completion": Entry(
        _OTHER, "Print a script with which a shell completes command lines.", "completion", "completion"
    ),
    "version": Entry(_OTHER, "Print the version.", "version", "version"),
    "join": Entry(
        _HERE,
        "Join a fleet with this machine's node.",
        "join",
        "join",
    ),
    "leave": Entry(_HERE, "Leave the fleet that this machine's node belongs to.", "join", "leave"),
    "fleet": Entry(_FLEET, "Many nodes as one fleet: what they run, and who is let in."),
    "create": Entry(_PODS, "Create what a manifest has, or a ConfigMap or Secret.", "create", "app"),
    "key": Entry(_HERE, "Show and change the keys of this machine's node.", "key", "app"),
    "top": Entry(_PODS, "Show the CPU and memory usage of pods and of the node.", "top", "top"),
}


def _shared(verb: str, summary: str) -> Entry:
    """Return the entry of a command of ``fleet`` that a node has too: ``fleet_VERB`` on the page of the node's."""
    return COMMANDS[verb]._replace(panel="Commands", summary=summary, function=f"fleet_{verb.replace('-', '_')}")


def _own(where: str, summary: str) -> Entry:
    """Return the entry of a command that only ``fleet`` has. `where` is its function: ``up.serve`` of `fleet_up`."""
    module, _, function = where.partition(".")
    return Entry("Commands", summary, f"fleet_{module}", function)


FLEET_COMMANDS: Final[dict[str, Entry]] = {
    "up": _own("up.up", "Serve a fleet from this machine: start its Temporal server, its worker and its gate."),
    "down": _own("up.down", "End the gate, the worker and the Temporal server that `fleet up` has started."),
    "get": _shared(
        "get",
        "List the fleet's nodes, workloads, or pods on all nodes: `nodes`, `deployments`, `daemonset logs`, `pods`.",
    ),
    "describe": _shared(
        "describe",
        "Show a workload, node, pod or object of the fleet: `deployment web`, `daemonset logs`, `node n1`, "
        "`secret keys`.",
    ),
    "explain": _shared(
        "explain",
        "Explain the state of a pod of the fleet, and what happens next: `explain web`, `explain deployment/web`.",
    ),
    "logs": _shared("logs", "Print the logs of a pod's containers on any node of the fleet."),
    "exec": _shared("exec", "Run a command in a container on any node of the fleet, and exit with its exit code."),
    "attach": _shared("attach", "Show the output of a running container on any node of the fleet, or type into it."),
    "port-forward": _shared(
        "port-forward", "Forward local ports to a pod on whichever node of the fleet it is, until Ctrl-C."
    ),
    "cp": _shared("cp", "Copy files and directories to and from containers, on whichever node of the fleet they are."),
    "apply": _shared(
        "apply",
        "Run pods, Deployments and DaemonSets (apps/v1) on the fleet's nodes, with their ConfigMaps and Secrets.",
    ),
    "delete": _shared("delete", "Delete workloads, pods, ConfigMaps and Secrets of the fleet, on all nodes."),
    "cordon": _shared("cordon", "Place no new pods on these nodes."),
    "uncordon": _shared("uncordon", "Place new pods on these nodes again."),
    "drain": _shared(
        "drain",
        "Move the pods of nodes elsewhere: cordon the nodes, and have their pods replaced on other nodes.",
    ),
    "remove": _own("remove.remove", "Remove nodes from the fleet for good, and revoke their certificates."),
    "serve": _own(
        "up.serve",
        "Run the fleet's worker until Ctrl-C, on the Temporal server that the environment names, or on your own.",
    ),
    "gate": _own("gate.gate", "Let nodes reach the fleet's Temporal server, until Ctrl-C."),
    "codec": _own("codec.codec", "Decrypt payloads for the Temporal UI with the fleet's keys, until Ctrl-C."),
    "install": _own(
        "install.install", "Have systemd run a fleet's worker and gate on this machine, also after a reboot."
    ),
    "uninstall": _own("install.uninstall", "Remove the systemd units of a fleet's worker and gate from this machine."),
    "invite": _own("certificates.invite", "Write an invitation: the file that a node joins the fleet with."),
    "revoke": _own("certificates.revoke", "Revoke the certificates of a node, and so keep it out of the fleet."),
    "certificates": _own("certificates.certificates", "List the certificates of nodes, and how long each is valid."),
    "rotate": _own("certificates.rotate", "Make a new certificate authority for new certificates."),
    "retire": _own(
        "certificates.retire",
        "Remove the earliest certificate authority, and so revoke all certificates that it has issued.",
    ),
    "top": _shared("top", "Show the CPU and memory usage of the fleet's pods and nodes."),
    "rollout": _own("rollout.app", "The rollouts of a Deployment or DaemonSet of the fleet, and its revisions."),
    "key": _own(
        "key.app",
        "Show and change the keys that a fleet signs its commands and encrypts its histories with, and those that it "
        "seals with.",
    ),
}

TABLES: Final[Mapping[tuple[str, ...], Mapping[str, Entry]]] = {(): COMMANDS, ("fleet",): FLEET_COMMANDS}
"""The tables by the words before their commands: () for ``syncpod`` itself, ("fleet",) for ``syncpod fleet``."""
