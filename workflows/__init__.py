"""The durable workflows: of a pod (:mod:`workflows.pod`), of a node (:mod:`workflows.node`), and those of a fleet.

Start with :mod:`workflows.pod.workflow` (the loop), then :mod:`workflows.pod.decide` (chooses the next step),
:mod:`workflows.pod.pipelining` (runs the step, perhaps with a start ahead) and :mod:`workflows.pod.absorb` (takes
signals and updates).
"""
