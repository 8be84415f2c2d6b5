"""The wiring of ``worker.py`` and ``fleet_worker.py``, which name workflows, activities and task queues.

Start with `process.py`, the process of a node's worker. `serving.py` runs what `assembly.py` puts together from the
node's settings: `temporal_worker.py` beside the node's agent. `fleet.py` is the process of a fleet's worker.
"""
