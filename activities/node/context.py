"""The node as each of its steps gets it: its runtime, its reader, and what it keeps between steps."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from activities.node.fences import Fences
from activities.node.hooks import PreStops
from activities.node.known_images import KnownImages
from activities.node.ledger import Ledger, WaitsForRoom
from activities.node.pairs import Pairs
from activities.node.pod_queues import PodQueue
from activities.node.pulls import Pulls, PullSettings
from activities.node.readiness import Readiness
from activities.node.stops import Stops
from activities.node.uid_owners import UidOwners
from activities.node.views import LastViews
from syncpod.cri import CriRuntime
from syncpod.journal.records import Instance
from syncpod.messages import ObservedPod
from syncpod.messages.identity import NodeFacts, PodRef
from syncpod.messages.running_steps import RunningStep
from syncpod.messages.step_table import Stage
from syncpod.node.announcements import Announcements
from syncpod.node.pod_threads import PodThreads
from syncpod.node.reader import PodReader
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.sysctls import AllowedSysctls, allowed_sysctls


def pods_at_once() -> int:
    """Return how many pods a node starts, and how many it ends, at the same time: twice its number of cores.

    More would only make each one slower.
    """
    return 2 * (os.cpu_count() or 1)


def _queues() -> Mapping[Stage, PodQueue]:
    """Return a queue for each stage. Pods that end and pods that are removed share theirs."""
    ending = PodQueue(pods_at_once())
    return {Stage.BEGINNING: PodQueue(pods_at_once()), Stage.ENDING: ending, Stage.CLEARING: ending}


async def no_journal(_ref: PodRef, _instances: Sequence[Instance]) -> None:
    """Keep nothing."""


@dataclass
class Node:
    """One node's runtime and memory, passed to every step. The worker makes it once, in its event loop."""

    cri: CriRuntime
    reader: PodReader
    """The one place that reads a pod whole; shared with the agent, so that there is one sequence of listings."""
    context: NodeContext
    facts: Callable[[], NodeFacts] = NodeFacts
    """Returns the facts of the node that each result carries to the workflow."""
    returned: Callable[[ObservedPod], None] = lambda status: None
    """Called with each status that a step's result or fault carries to the workflow. So the agent knows what the
    workflow knows, and sends no signal for it."""
    acts: Callable[[str], None] = lambda uid: None
    """Called with the UID of a pod whose step has waited and now acts. Until the step ends the agent need not signal
    what it sees of the pod, since the step returns it."""
    queues: Mapping[Stage, PodQueue] = field(default_factory=_queues)
    """The queues of pods that are to start, and of those that are to end or to be removed."""
    pull_settings: PullSettings = field(default_factory=PullSettings)
    dead_kept: int = 1
    """How many dead instances of each container are kept when the next one starts."""
    has_room: Callable[[tuple[WaitsForRoom, ...]], None] = lambda waiting: None
    """Called when resources of the node are free again, with the pods that wait for room, in the order in which they
    are to be served."""
    pressure: Callable[[Pod], str] = lambda pod: ""
    """Returns why a node under pressure does not admit a pod, in the kubelet's words; "" if it admits it."""
    fences: Fences = field(default_factory=Fences)
    views: LastViews = field(default_factory=LastViews)
    pairs: Pairs = field(default_factory=Pairs)
    adopted: Callable[[PodRef], None] = lambda ref: None
    """Called when a workflow that knows nothing of a pod yet has adopted what runs of it."""
    was_deleted: Callable[[PodRef], None] = lambda ref: None
    """Called when a workflow wants to start a pod's life that has ended for good on this node."""
    journal: Callable[[PodRef, Sequence[Instance]], Awaitable[None]] = no_journal
    """Awaited before the logs of ended instances are removed: the node's journal keeps their ends."""
    waiting_for: dict[ObjectRef, set[tuple[str, str]]] = field(default_factory=dict)
    """For each missing object, who waits for it: the workflow id, and the container or step. The agent tells them when
    the object appears."""
    unprobed: set[tuple[str, str]] = field(default_factory=set)
    """Pod UID and name of each container that is being started with a postStart hook: until that has ended, the agent
    does not probe it."""
    announcements: Announcements = field(default_factory=Announcements)
    """What the runtime announces of single containers."""
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
        """The threads of its pods, for what touches a disk that may hang; the agent uses them too."""
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
