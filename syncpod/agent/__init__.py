"""The node agent: runs in the worker's process, and signals the pods' workflows when something changes on the node.

Read in this order: :mod:`.takeover.lock` (one worker per state directory), :mod:`.takeover.rival` (per node name),
:mod:`.boot` (the first work of a new worker), :mod:`.pleg` (the changes in the runtime), :mod:`.pidfds` and
:mod:`.exits` (exits, at once), :mod:`.backoff_queue`, :mod:`.runtime_readiness`, and :mod:`.agent`, which connects
them. Steps call :mod:`.step_port`, and workflow tasks :mod:`.task_watch`. Then :mod:`.container_events`,
:mod:`.probing`, :mod:`.eviction`, :mod:`.storage`, :mod:`.housekeeping`, :mod:`.node_workflow`, and
:mod:`.stuck_workflows`. Readers of the node: :mod:`.published_pods`, :mod:`.journal`, :mod:`.scraping`. Its membership
in a fleet: :mod:`.fleet`. Its part in a Kubernetes cluster: :mod:`.kubernetes` and :mod:`.kubelet_port`.
"""
