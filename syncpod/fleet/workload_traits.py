"""The kinds of workloads, and the traits by which their names, lists and counts differ.

The rest of a kind is its object (`syncpod.fleet.workload_kinds`). The command's texts need only these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from syncpod.fleet.pod_names import NUMBERED, ONE_NAME, PodNames
from syncpod.fleet.when_lost import Action


@dataclass(frozen=True)
class Traits:
    """One kind of workload."""

    name: str
    """Its `kind` in a document."""
    words: tuple[str, ...]
    """kubectl's words for it, the plural second."""
    group: str = ""
    """Its API group; "" = the core's."""
    revision_label: str = ""
    """The label of its pods that has the revision of their template; "" = it has no template, but is the pod itself."""
    is_per_node: bool = False
    """It has one pod on each of its nodes, and each pod belongs to its node."""
    names: PodNames = NUMBERED
    """How its pods are named."""
    lost_rules: tuple[Action, ...] = ("wait", "replace-after", "stop-after")
    """The rules that it can have for its pods on a lost node. Under `replace-after` a pod may run twice."""
    lost_why: str = ""
    """Why it can have no other rules, as a clause about the kind."""
    is_pausable: bool = False
    """Its rollouts can be paused."""
    title: str = ""
    """What ``rollout status`` calls it."""
    pods: str = "replicas"
    """What ``rollout status`` calls its pods."""
    columns: tuple[tuple[str, str], ...] = (
        ("READY", "{one.ready}/{one.desired}"),
        ("UP-TO-DATE", "{one.updated}"),
        ("AVAILABLE", "{one.available}"),
    )
    """The counts of a list, as in kubectl: the header of each column, and its cell for the workload's summary."""
    status: tuple[tuple[str, str], ...] = (
        ("replicas", "replicas"),
        ("updatedReplicas", "updated"),
        ("readyReplicas", "ready"),
        ("availableReplicas", "available"),
    )
    """The counts of its status: each name in the API, and its name in the workload's view."""

    @property
    def resource(self) -> str:
        """The kind as kubectl prints it before an object's name: ``deployment.apps``."""
        return ".".join(filter(None, (self.name.lower(), self.group)))

    @property
    def resources(self) -> str:
        """Its plural: ``deployments.apps``."""
        return ".".join(filter(None, (self.words[1], self.group)))

    @property
    def has_template(self) -> bool:
        """Whether its pods are made from a template, and have its revisions.

        Without a template, its document is the pod, and a change of the document changes the existing pods.
        """
        return self.revision_label != ""


DEPLOYMENT: Final = Traits(
    "Deployment",
    ("deployment", "deployments", "deploy"),
    "apps",
    revision_label="pod-template-hash",
    is_pausable=True,
    title="deployment",
)
DAEMON_SET: Final = Traits(
    "DaemonSet",
    ("daemonset", "daemonsets", "ds"),
    "apps",
    revision_label="controller-revision-hash",
    is_per_node=True,
    lost_rules=("wait", "stop-after"),
    lost_why="whose pods belong to their nodes",
    title="daemon set",
    pods="pods",
    columns=(
        ("DESIRED", "{one.desired}"),
        ("CURRENT", "{one.replicas}"),
        ("READY", "{one.ready}"),
        ("UP-TO-DATE", "{one.updated}"),
        ("AVAILABLE", "{one.available}"),
    ),
    status=(
        ("desiredNumberScheduled", "desired"),
        ("currentNumberScheduled", "replicas"),
        ("numberMisscheduled", "misscheduled"),
        ("updatedNumberScheduled", "updated"),
        ("numberReady", "ready"),
        ("numberAvailable", "available"),
    ),
)
POD: Final = Traits("Pod", ("pod", "pods", "po"), names=ONE_NAME, title="pod")

KINDS: Final[Mapping[str, Traits]] = {each.name: each for each in (DEPLOYMENT, DAEMON_SET, POD)}
"""Every kind of workload, by its name."""
TEMPLATED: Final = tuple(name for name, each in KINDS.items() if each.has_template)
"""The kinds that make pods from a template."""
PAUSABLE: Final = tuple(name for name, each in KINDS.items() if each.is_pausable)
"""The kinds whose rollouts can be paused."""


def is_per_node(kind: str) -> bool:
    """Say whether a workload of this kind has a pod on each node; False for the name of no kind."""
    return kind in KINDS and KINDS[kind].is_per_node


def one_of(names: tuple[str, ...], word: str = "or") -> str:
    """Return kinds as a phrase: ``Deployment, DaemonSet or Pod``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
