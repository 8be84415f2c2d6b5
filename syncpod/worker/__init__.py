"""The wiring of ``worker.py`` and ``fleet_worker.py``, which name workflows, activities and task queues.

Start with `process.py`, the process of a node's worker. `serving.py` runs the Temporal worker and the node's agent.
`assembly.py` makes both from the node's settings, the worker with `temporal_worker.py`. `fleet.py` is the process of a
fleet's worker.
"""
