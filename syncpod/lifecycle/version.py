"""Which decisions this tree takes.

Everything that a workflow calls in :mod:`syncpod.pod` and :mod:`syncpod.lifecycle` decides its commands, so a change of
what they answer is a change of the workflow. The number grows with each such change; a run that was started with an
older one continues as new at its next quiet point, and the tree holds two versions at most.
"""

DECISION_VERSION = 1
"""Version of the decisions, carried by every snapshot."""
