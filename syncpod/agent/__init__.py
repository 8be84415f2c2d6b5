"""The node agent: what runs beside the worker on a node and tells the pods' workflows what happens there.

Read in this order: :mod:`.lock` (one worker per node), :mod:`.rival` (and per name), :mod:`.boot` (what a new life does
first), :mod:`.pleg` (what changed), :mod:`.pidfds` (at once), :mod:`.backoff_queue`, :mod:`.readiness`, and
:mod:`.agent`, which ties them together. Beside them :mod:`.storage` holds pods to their limits of disk,
:mod:`.image_gc` removes images, and :mod:`.volume_refresh` carries changed ConfigMaps and Secrets into volumes.
"""
