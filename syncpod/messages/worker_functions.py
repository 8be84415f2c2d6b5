"""The functions of a worker that its workflows call outside their history: Temporal's extern functions.

The workflow that calls a function and the interceptor that provides it use the same name. A worker need not provide
each of them, and a replayer provides none; then nothing is called. So a misspelt name would cause no error, and the
names are defined only here.
"""

from __future__ import annotations

from typing import Final

ARM_BACKOFF: Final = "syncpod_arm_backoff"
"""``(workflow_id, subject, restart, delay_seconds)``: the node's agent must signal the end of a back-off. A delay of
None cancels the signal."""

PUBLISH: Final = "syncpod_publish"
"""``(run_id, published)``: the state that the node's agent may read."""

PODS_PAGE: Final = "syncpod_pods_page"
"""``()``: the part of a node's page about its pods. Only a query may call it: the answer differs at each replay."""

STEP_CANCELLED: Final = "syncpod_step_cancelled"
"""``(workflow_id)``: the workflow has requested the cancellation of a step."""

RESIZES: Final = "syncpod_resizes"
"""``(workflow_id, pending, in_progress, requested)``: the state of the pod's resize. `pending` is the reason why the
resize has not begun, or "". `requested` lists the changes that were requested since the last call: resource,
requirement and operation of each."""

DECIDING: Final = "syncpod_deciding"
"""``()``: a decision begins."""

DECIDED: Final = "syncpod_decided"
"""``(attributes)``: the decision."""

RESTED: Final = "syncpod_rested"
"""``(attributes)``: no step may begin any more."""

BEGINS: Final = "syncpod_fleet_begins"
"""``(workflow_id, run_id, number)``, for a fleet's workflows: returns why the run must not begin with the start of this
number; "" if it may."""
