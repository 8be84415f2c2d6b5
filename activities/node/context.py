"""What every step of a node is given: its runtime, its reader, and what the node keeps between steps."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from activities.node.fences import Fences
from activities.node.hooks import PreStops
from activities.node.ledger import Ledger
from activities.node.pulls import Pulls, PullSettings
from activities.node.stops import Stops
from activities.node.views import LastViews
from syncpod.cri import CriRuntime
from syncpod.messages import NodeFacts, ObservedPod, PodRef
from syncpod.node.reader import PodReader
from syncpod.objects import ObjectRef, ObjectStore
from syncpod.pod import Pod
from syncpod.translation.context import NodeContext
from syncpod.translation.sysctls import AllowedSysctls, allowed_sysctls


def sandboxes_at_once() -> int:
    """How many RunPodSandbox calls a node has in flight: twice its cores; more only make each one slower."""
    return 2 * (os.cpu_count() or 1)


@dataclass
class Node:
    """One node's runtime and memory, injected into every step. Made once by the worker, in its event loop."""

    cri: CriRuntime
    reader: PodReader
    """The one place that reads a pod whole; shared with the agent, so that there is one sequence of listings."""
    context: NodeContext
    facts: Callable[[], NodeFacts] = NodeFacts
    """What the workflow is told of the node with each result."""
    returned: Callable[[ObservedPod], None] = lambda status: None
    """Called with each status that a step's result or fault carries to the workflow, so that the agent's record
    advances and no signal says the same again."""
    sandbox_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(sandboxes_at_once()))
    pull_settings: PullSettings = field(default_factory=PullSettings)
    dead_kept: int = 1
    """How many dead instances of each container are kept when the next one starts."""
    has_room: Callable[[tuple[PodRef, ...]], None] = lambda waiting: None
    """Called when something that pods took of the node is free again, with the pods that wait for room to be resized,
    first those to be served first."""
    pressure: Callable[[Pod], str] = lambda pod: ""
    """Why a node that is short of something does not let a pod in, in the kubelet's words; "" = it does."""
    fences: Fences = field(default_factory=Fences)
    views: LastViews = field(default_factory=LastViews)
    adopted: Callable[[PodRef], None] = lambda ref: None
    """Called when what runs of a pod has been taken over by a workflow that knows nothing of it yet."""
    waiting_for: dict[ObjectRef, set[tuple[str, str]]] = field(default_factory=dict)
    """Who failed for want of an object: workflow id, and the container or step that waits; the agent tells them when
    the object appears."""
    objects: ObjectStore = field(init=False)
    """The node's ConfigMaps and Secrets; its methods block."""
    sysctls: AllowedSysctls = field(default_factory=lambda: allowed_sysctls(os.uname().release))
    """What pods may set of the kernel."""
    ledger: Ledger = field(init=False)
    pulls: Pulls = field(init=False)
    stops: Stops = field(init=False)
    pre_stops: PreStops = field(init=False)

    def __post_init__(self) -> None:
        self.objects = ObjectStore(self.context.state_dir, self.context.memory_dir)
        self.pulls = Pulls(self.context.state_dir, self.pull_settings)
        self.stops = Stops(self.cri)
        self.pre_stops = PreStops(self.cri, self.context)
        self.ledger = Ledger(self.context)
