"""Measures when a kubelet and a node report a pod as Running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from qa.differential.kubelet import Kubelet
from syncpod.api.client import reports

_PAUSE_SECONDS: Final = 0.003
"""The pause between requests: a report is seen at most this late, plus the time of one request."""

Phase = Callable[[str], Awaitable[str]]
"""Returns the reported phase of the pod of this name; "" if none is reported."""


async def kubelet_phase(kubelet: Kubelet, pod: str) -> str:
    """Return the phase that the kubelet's endpoint ``/pods`` reports."""
    return _phase((await kubelet.pods()).get(pod))


async def node_phase(state_dir: Path, pod: str) -> str:
    """Return the phase in the answer of the node's worker on its socket, as for ``syncpod get pod``."""
    told = await asyncio.to_thread(reports, state_dir, "default", [pod], "pod", at_once=True)
    return _phase(next((each["pod"] for each in told or ()), None))


async def until_reported(phase: Phase, pod: str, *, patience: float) -> float:
    """Return when the pod was first reported as Running, by `time.perf_counter`.

    Raises TimeoutError after `patience` seconds.
    """
    async with asyncio.timeout(patience):
        while True:
            if await phase(pod) == "Running":
                return time.perf_counter()
            await asyncio.sleep(_PAUSE_SECONDS)


def _phase(pod: object) -> str:
    if not isinstance(pod, dict):
        return ""
    return str(pod.get("status", {}).get("phase", ""))
