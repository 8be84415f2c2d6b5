"""The node agent: runs beside the worker on a node and tells the pods' workflows what happens there.

Read in this order: :mod:`.takeover.lock` (one worker per node), :mod:`.takeover.rival` (and per node name),
:mod:`.takeover.boot` (what a new worker does first), :mod:`.pleg` (what changed in the runtime), :mod:`.pidfds` and
:mod:`.exits` (exits, at once), :mod:`.backoff_queue`, :mod:`.runtime_readiness`, and :mod:`.agent`, which connects
them. Then :mod:`.probing`, :mod:`.eviction`, :mod:`.storage`, :mod:`.housekeeping`, and :mod:`.node_workflow`.
"""
