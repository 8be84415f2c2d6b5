"""The activities: the steps of a pod's workflow, one module per verb, and those of the workflows of nodes and fleets.

A pod's steps act on the runtime and on the node's disk. Each step may run twice, and may be killed at any line. So it
looks before it acts, adopts the objects that an earlier attempt has made, and never does anything that a newer step
would have to undo. Read :mod:`activities.step`, the frame around each of them, then
:mod:`activities.verbs.create_sandbox` and :mod:`activities.verbs.start_container`, and
:mod:`activities.pods.stopping`.

The layers, from the top: `registry`, `between` (the node's work between steps), `verbs` and `step`, `pods`,
`containers` and `images`, `step_attempt`, `node`. Imports go downwards only. `steps(node)` returns the activities that
a worker registers.
"""

from activities.node.context import Node
from activities.registry import steps

__all__ = ["Node", "steps"]
