"""Gets the usage of volumes from their storage drivers, at most once a minute and only on request.

Mirrors pkg/volume/csi/csi_metrics.go, v1.37: a driver with GET_VOLUME_STATS is called for each pod's volume. If the
driver refuses or does not answer, the volume is left out. The condition of a volume is not requested, as in a kubelet
without the feature gate CSIVolumeHealth.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from syncpod.agent.background import cancel_all
from syncpod.agent.kubernetes.csi_drivers import CsiDrivers
from syncpod.agent.kubernetes.csi_volumes import stored_place
from syncpod.agent.record_cache import RecordCache
from syncpod.agent.scraping.readings import NodeReadings
from syncpod.agent.scraping.volume_usage import VolumeUsage
from syncpod.csi.driver import REPORTS_USAGE, CsiDriver, CsiError
from syncpod.kernel.daemon_thread import in_daemon_thread
from syncpod.kernel.procfs import boot_id
from syncpod.node.disks import Disk
from syncpod.node.pod_records import PodRecord
from syncpod.objects import ClaimedPlace, ClaimNeed, ObjectStore, claim_needs
from syncpod.redaction import of_process
from syncpod.translation.context import NodeContext

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 60.0
"""Seconds for which an answer is reused: the kubelet's volumeStatsAggPeriod."""
PATIENCE_SECONDS: Final = 1.0
"""Seconds that a caller waits for drivers. After that it gets their previous answers."""
_AT_ONCE: Final = 4
"""The most concurrent calls of one driver. A hanging driver does not delay the others."""

_Key = tuple[str, str]
"""A pod's UID, and the name of a volume in the pod."""


@dataclass(frozen=True)
class _Published:
    """A driver's volume that is mounted for a pod."""

    claim: str
    """The name of its claim; "" = it has none."""
    place: ClaimedPlace


class DriverUsage:
    """Calls the drivers of one node, and caches their answers. Belongs to one event loop."""

    def __init__(self, readings: NodeReadings, drivers: CsiDrivers, store: ObjectStore, node: NodeContext) -> None:
        """Get usage for `readings`, of the volumes that are mounted according to `store`."""
        self._readings, self._drivers, self._store = readings, drivers, store
        self._needs = RecordCache(node, _needs)
        self._known: dict[_Key, VolumeUsage | None] = {}
        self._asking: dict[_Key, asyncio.Task[None]] = {}
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))
        self._stale_at = 0.0

    async def run(self) -> None:
        """Supply the node's readings with usage until cancelled."""
        try:
            with self._readings.asking_drivers(self.measure):
                await asyncio.Event().wait()
        finally:
            await cancel_all(self._asking.values())

    async def measure(self) -> Mapping[str, Mapping[str, VolumeUsage | None]]:
        """Return the usage of drivers' volumes by pod UID and volume; None = the driver has not answered.

        The usage is at most a minute old if the driver answers in time.
        """
        if time.monotonic() >= self._stale_at:
            self._stale_at = time.monotonic() + FRESH_SECONDS
            await self._ask()
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=PATIENCE_SECONDS)
        found: defaultdict[str, dict[str, VolumeUsage | None]] = defaultdict(dict)
        for (uid, name), usage in self._known.items():
            found[uid][name] = usage
        return found

    async def _ask(self) -> None:
        """Call the driver of each mounted volume, if the previous call for that volume has ended."""
        found = await in_daemon_thread(self._published, name="volumes of drivers")
        measured = {key: each for key, each in found.items() if self._calls(each) is not None}
        self._known = {key: self._known.get(key) for key in measured}
        for key, each in measured.items():
            calls = self._calls(each)
            if calls is not None and key not in self._asking:
                self._asking[key] = task = asyncio.create_task(self._ask_one(key, each, calls))
                task.add_done_callback(partial(self._asked, key))

    def _asked(self, key: _Key, _: asyncio.Task[None]) -> None:
        self._asking.pop(key, None)

    async def _ask_one(self, key: _Key, volume: _Published, calls: CsiDriver) -> None:
        usage, place = None, volume.place
        try:
            async with self._turns[place.driver]:
                said = await calls.usage(place.handle, Path(place.target))
        except CsiError as error:
            log.debug("volume %s of pod uid %s: %s", key[1], key[0], of_process.redact(str(error)))
        else:
            disk = Disk(0, said.capacity_bytes, said.available_bytes, said.used_bytes, said.inodes, said.inodes_free)
            now = datetime.now(UTC)
            usage = VolumeUsage(key[1], now, said.used_bytes, said.inodes_used, disk, False, volume.claim)
        if key in self._known:
            self._known[key] = usage

    def _calls(self, volume: _Published) -> CsiDriver | None:
        """Return the volume's driver, if it reports the usage of its volumes."""
        driver = self._drivers.get(volume.place.driver)
        return driver.calls if driver is not None and REPORTS_USAGE in driver.capabilities else None

    def _published(self) -> Mapping[_Key, _Published]:
        """Return the drivers' mounted volumes. Blocks. Raises OSError."""
        found = {}
        for uid, needs in self._needs.read().items():
            for need in needs:
                place = stored_place(self._store, need.ref)
                if place is not None and place.plugin == "csi" and place.path and place.boot_id == boot_id():
                    found[uid, need.volume] = _Published(need.claim, place)
        return found


def _needs(record: PodRecord) -> tuple[ClaimNeed, ...] | None:
    return tuple(claim_needs(record.pod)) or None
