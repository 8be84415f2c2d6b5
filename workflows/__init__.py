"""The durable workflows: a pod's (:mod:`workflows.pod`), which decides and runs its steps, and a node's.

Start with :mod:`workflows.pod.workflow` (the loop), then :mod:`workflows.pod.decide` (what next) and
:mod:`workflows.pod.absorb` (what comes in).
"""
