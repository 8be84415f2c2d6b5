"""The node that each of its steps receives: its runtime, its reader, and its state between steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from activities.node.agent_port import AgentPort
from activities.node.fences import Fences
from activities.node.first_steps import FirstSteps
from activities.node.hooks import PreStops
from activities.node.ledger import Ledger
from activities.node.pod_queues import PodQueue
from activities.node.pulls import Pulls, PullSettings
from activities.node.recent_answers import KnownImages, Readiness
from activities.node.stops import Stops
from activities.node.uid_owners import UidOwners
from activities.node.views import LastViews
from syncpod.cri import CriRuntime
from syncpod.messages.running_steps import RunningStep
from syncpod.messages.step_table import Stage
from syncpod.node.announcements import Announcements
from syncpod.node.pod_threads import PodThreads
from syncpod.node.reader import PodReader
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.translation.context import NodeContext
from syncpod.translation.sysctls import AllowedSysctls, allowed_sysctls


def pods_at_once() -> int:
    """Return how many pods a node starts, and how many it ends, at the same time: twice its number of cores.

    More pods at once would only make each pod slower.
    """
    return 2 * (os.cpu_count() or 1)


def _queues() -> Mapping[Stage, PodQueue]:
    """Return a queue for each stage. Pods that end and pods that are removed share one queue."""
    ending = PodQueue(pods_at_once())
    return {Stage.BEGINNING: PodQueue(pods_at_once()), Stage.ENDING: ending, Stage.CLEARING: ending}


@dataclass
class Node:
    """One node's runtime and memory, passed to every step. The worker makes it once, in its event loop."""

    cri: CriRuntime
    reader: PodReader
    """Reads whole pods; shared with the agent, so that there is one sequence of listings."""
    context: NodeContext
    agent: AgentPort
    """The part of the worker that runs beside the steps and is notified of them."""
    queues: Mapping[Stage, PodQueue] = field(default_factory=_queues)
    """One queue of pods to start, and one of pods to end or to be removed."""
    pull_settings: PullSettings = field(default_factory=PullSettings)
    dead_kept: int = 1
    """How many dead instances of each container are kept when the next one starts."""
    fences: Fences = field(default_factory=Fences)
    views: LastViews = field(default_factory=LastViews)
    first_steps: FirstSteps = field(default_factory=FirstSteps)
    waiting_for: dict[ObjectRef, set[tuple[str, str]]] = field(default_factory=dict)
    """The waiters for each missing object: the workflow id, and the name of the container or step. The agent notifies
    them when the object appears."""
    unprobed: set[tuple[str, str]] = field(default_factory=set)
    """Pod UID and name of each container that is being started with a postStart hook: the agent does not probe the
    container until the hook has ended."""
    announcements: Announcements = field(default_factory=Announcements)
    """The runtime's announcements about single containers."""
    running: set[RunningStep] = field(default_factory=set)
    """The attempts of steps that are under way."""
    unlimited: str = ""
    """The limits that could not be set on the cgroup above all pods, as last logged; "" if all were set."""
    no_log_links: str = ""
    """Why links to containers' logs could not be made, as last logged; "" if they could."""
    objects: ObjectStore = field(init=False)
    """The node's ConfigMaps and Secrets; its methods block."""
    sysctls: AllowedSysctls = field(default_factory=lambda: allowed_sysctls(os.uname().release))
    """The kernel parameters that pods may set."""
    ledger: Ledger = field(init=False)
    uids: UidOwners = field(init=False)
    pulls: Pulls = field(init=False)
    readiness: Readiness = field(init=False)
    images: KnownImages = field(init=False)
    stops: Stops = field(init=False)
    pre_stops: PreStops = field(init=False)

    @property
    def threads(self) -> PodThreads:
        """The threads of its pods, for work on a disk that may hang; the agent uses them too."""
        return self.reader.threads

    def __post_init__(self) -> None:
        self.objects = ObjectStore(self.context.state_dir, self.context.memory_dir)
        self.pulls = Pulls(self.context.state_dir, self.pull_settings)
        self.readiness = Readiness(self.cri)
        self.images = KnownImages(self.cri, self.pulls)
        self.stops = Stops(self.cri)
        self.pre_stops = PreStops(self.cri, self.context)
        self.ledger = Ledger(self.context)
        self.uids = UidOwners(self.context)
