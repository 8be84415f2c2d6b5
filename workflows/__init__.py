"""The durable workflows: of a pod (:mod:`workflows.pod`), of a node (:mod:`workflows.node`), and those of a fleet.

Start with :mod:`workflows.pod.workflow` (the loop), then :mod:`workflows.pod.decide` (chooses the next step),
:mod:`workflows.pod.step_runner` (runs the step) and :mod:`workflows.pod.absorb` (takes signals and updates).
"""
