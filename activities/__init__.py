"""The steps of a pod's workflow, one file per verb: what is really done to the runtime and the node's disk.

Each step may run twice, and may be killed at any line: it looks first, adopts what an earlier try has made, and never
does what a newer step would have to undo. Read :mod:`activities.step` for what all of them share, then
:mod:`activities.create_sandbox` and :mod:`activities.start_container`, then :mod:`activities.kill_pod`.

`steps(node)` gives the worker its activities.
"""

from activities.node.context import Node
from activities.registry import steps

__all__ = ["Node", "steps"]
