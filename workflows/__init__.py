"""The durable workflows: of a pod (:mod:`workflows.pod`), of a node (:mod:`workflows.node`), and those of a fleet.

Start with :mod:`workflows.pod.workflow` (the loop), then :mod:`workflows.pod.decide` (what next),
:mod:`workflows.pod.step_runner` (a step is run) and :mod:`workflows.pod.absorb` (what comes in).
"""
