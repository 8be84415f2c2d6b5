"""Sets the CPU weights of the QoS classes' cgroups again and again, as the admitted pods request."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from activities.node.context import Node
from syncpod.kernel.os_errors import where_and_why
from syncpod.node.pod_cgroups import weigh_tiers

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 60.0
"""periodicQOSCgroupUpdateInterval."""


async def keep_tiers_weighed(node: Node) -> None:
    """Set the weights now and then every `PERIOD_SECONDS`, until cancelled.

    Steps set them whenever a pod is admitted, is resized or ends. But the worker may be killed, or the write may fail,
    after the pod has stopped counting. Then no later try of the step would set them. Mirrors
    cm/qos_container_manager_linux.go, v1.36, Start.
    """
    obstacle = ""
    while True:
        try:
            async with node.ledger.open() as page:
                await asyncio.to_thread(weigh_tiers, node.context, page.burstable_milli_cpu)
            obstacle = ""
        except OSError as error:
            if where_and_why(error) != obstacle:
                log.warning("the weights of the QoS classes' cgroups cannot be set: %s", where_and_why(error))
            obstacle = where_and_why(error)
        await asyncio.sleep(PERIOD_SECONDS)
