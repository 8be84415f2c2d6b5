"""Mounts volumes of storage drivers for the node's pods, and unmounts them after the pods have ended.

Mirrors pkg/volume/csi/csi_attacher.go (MountDevice) and csi_mounter.go (SetUpAt, TearDownAt), v1.36: the node waits
until the cluster has attached a volume. The driver then stages it once for the node, publishes it for each pod, and
afterwards unpublishes and unstages it. The node records each call on disk before it makes the call. So the next worker
can undo the call, and nothing stays mounted if a worker dies. A volume that a driver makes for a single pod (`csi` in
the pod) is only published. Difference: an attached volume is listed in the Node's `volumesInUse` with the next status,
and the mount does not wait for that.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from syncpod.agent.kubernetes.csi_drivers import CsiDrivers, Driver
from syncpod.agent.kubernetes.csi_tokens import DriverTokens
from syncpod.csi.driver import GIVES_TO_GROUP, GROWS, STAGES, CsiError
from syncpod.csi.volume import Growing, Publishing, Staging, Use
from syncpod.kernel.procfs import boot_id
from syncpod.kubernetes.claimed_volume import NotUsable
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.csi import (
    CsiVolume,
    DriverTraits,
    SecretName,
    attachment_path,
    check_lifecycle,
    driver_path,
    driver_traits,
    is_given_to_group,
    publish_attributes,
    publish_context,
    unique_name,
)
from syncpod.kubernetes.given_object import NotAnObject, given_object
from syncpod.node.directories import make_directories, own_directories
from syncpod.objects import (
    ClaimedPlace,
    ClaimNeed,
    ObjectRef,
    ObjectStore,
    ObjectUnreadable,
    claimed_place,
    kept_place,
    values,
)
from syncpod.redaction import of_process
from syncpod.translation.context import NodeContext
from syncpod.translation.paths import csi_device_staging, csi_device_target, csi_staging, csi_target
from syncpod.volumes.ownership import give_volume

log = logging.getLogger(__name__)

_MODE: Final = 0o750


def stored_place(store: ObjectStore, ref: ObjectRef) -> ClaimedPlace | None:
    """Return the place of a volume from the node's store; None if there is none, or if it cannot be read. Blocks."""
    try:
        held = store.get(ref)
        return None if held is None else claimed_place(values(held))
    except (ObjectUnreadable, ValueError):
        return None


def volumes_in_use(store: ObjectStore) -> list[str]:
    """Return the unique names of the node's attached volumes, for the Node's status. Blocks."""
    kept = [stored_place(store, ref) for ref in store.versions() if ref.origin == "claim"]
    return sorted({unique_name(each.driver, each.handle) for each in kept if each and each.is_attached})


class CsiVolumes:
    """The volumes of storage drivers on one node. All methods belong to one event loop."""

    def __init__(self, client: ApiClient, store: ObjectStore, drivers: CsiDrivers, node: NodeContext) -> None:
        """Mount volumes with `drivers`, and record mounted volumes in `store`."""
        self._client, self._store, self._drivers, self._node = client, store, drivers, node
        self._tokens = DriverTokens(client)
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by the volume's unique name, as long as they are used: staging and unstaging exclude one another."""

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self._node.name

    def is_here(self, place: ClaimedPlace) -> bool:
        """Say whether a volume is mounted for its pod: a mount from before the machine's boot does not count."""
        return bool(place.path) and place.boot_id == boot_id()

    async def bring(self, volume: CsiVolume, need: ClaimNeed) -> ClaimedPlace:
        """Mount a volume for a pod, and return its place. Repeatable.

        Raises NotUsable, ClusterError, Unreachable, OSError.
        """
        driver = self._driver(volume)
        traits = await self._traits(volume)
        check_lifecycle(volume, traits)
        is_attached = traits.is_attached and not volume.is_inline
        context = await self._attached(volume) if is_attached else {}
        stages = STAGES in driver.capabilities and not volume.is_inline
        target, staged_at = self._paths(volume, need)
        staging = staged_at if stages else None
        place = ClaimedPlace(
            volume.name,
            "csi",
            "",
            driver=volume.driver,
            handle=volume.handle,
            target=str(target),
            staging=str(staging or ""),
            boot_id=boot_id(),
            is_attached=is_attached,
            is_block=volume.is_block,
        )
        async with self._lock(volume.unique_name):
            await asyncio.to_thread(self._store.keep, kept_place(need.ref, place), need.ref.origin)
            if staging is not None:
                await self._stage(driver, volume, need, context, staging)
            await self._publish(driver, volume, traits, need, context, place)
        return replace(place, path=str(target))

    async def again(self, volume: CsiVolume, need: ClaimNeed, place: ClaimedPlace) -> None:
        """Publish a volume again, if its driver requires that (requiresRepublish).

        The volume stays mounted even if the call fails. Raises NotUsable, ClusterError, Unreachable, OSError.
        """
        traits = await self._traits(volume)
        if not traits.requires_republish:
            return
        context = await self._attached(volume) if place.is_attached else {}
        async with self._lock(volume.unique_name):
            await self._publish(self._driver(volume), volume, traits, need, context, place)

    async def grow(self, volume: CsiVolume, place: ClaimedPlace, size: int) -> bool:
        """Expand a volume on this node to `size` bytes, by its driver; False if the driver does not do this on nodes.

        Repeatable. Raises CsiError, NotUsable.
        """
        driver = self._driver(volume)
        if GROWS not in driver.capabilities:
            return False
        use = Use(volume.access_mode, volume.fs_type, volume.mount_flags, is_block=volume.is_block)
        secrets = await self._secrets(volume.grow_secret)
        staging = Path(place.staging) if place.staging else None
        async with self._lock(volume.unique_name):
            growing = Growing(volume.handle, Path(place.target), staging, use, size, secrets)
            await driver.calls.grow(growing, driver.capabilities)
        return True

    async def _stage(
        self, driver: Driver, volume: CsiVolume, need: ClaimNeed, context: Mapping[str, str], staging: Path
    ) -> None:
        await asyncio.to_thread(_make, staging)
        secrets = await self._secrets(volume.stage_secret)
        staged = Staging(volume.handle, staging, _use(volume, need), context, volume.attributes, secrets)
        try:
            await driver.calls.stage(staged, driver.capabilities)
        except CsiError as error:
            raise NotUsable(of_process.redact(str(error))) from error

    async def _publish(
        self,
        driver: Driver,
        volume: CsiVolume,
        traits: DriverTraits,
        need: ClaimNeed,
        context: Mapping[str, str],
        place: ClaimedPlace,
    ) -> None:
        target = Path(place.target)
        if volume.is_block:
            await asyncio.to_thread(_make, target.parent)
        else:
            await asyncio.to_thread(self._make_above, need.uid, target)
        attributes, secrets = publish_attributes(volume, traits, need), await self._secrets(volume.publish_secret)
        # For a block volume the driver gets no tokens (csi_block.go, publishVolumeForBlock).
        tokens = await self._tokens.attributes(need, () if volume.is_block else traits.tokens)
        if traits.has_tokens_in_secrets:
            secrets = {**secrets, **tokens}
        else:
            attributes |= tokens
        published = Publishing(
            volume.handle,
            Path(place.staging) if place.staging else None,
            target,
            _use(volume, need),
            is_read_only=volume.is_read_only or need.is_read_only,
            publish_context=context,
            context=attributes,
            secrets=secrets,
        )
        try:
            await driver.calls.publish(published, driver.capabilities)
        except CsiError as error:
            raise NotUsable(of_process.redact(str(error))) from error
        is_by_node = GIVES_TO_GROUP not in driver.capabilities and is_given_to_group(volume, traits)
        if need.group is not None and is_by_node and not (published.is_read_only or volume.is_block):
            await asyncio.to_thread(give_volume, target, need.group, only_if_root_differs=need.only_if_root_differs)

    def _paths(self, volume: CsiVolume, need: ClaimNeed) -> tuple[Path, Path]:
        """Return the path at which a volume is mounted for its pod, and the path at which it is staged."""
        if volume.is_block:
            return csi_device_target(self._node, need.uid, volume.name), csi_device_staging(self._node, volume.name)
        staging = csi_staging(self._node, volume.driver, _digest(volume.handle))
        return csi_target(self._node, need.uid, volume.name), staging

    def _driver(self, volume: CsiVolume) -> Driver:
        driver = self._drivers.get(volume.driver)
        if driver is None:
            raise NotUsable(f"driver name {volume.driver} not found in the list of registered CSI drivers")
        return driver

    async def _traits(self, volume: CsiVolume) -> DriverTraits:
        return driver_traits(await self._found(driver_path(volume.driver)))

    async def let_go(self, ref: ObjectRef) -> None:
        """Unmount a pod's volume, and unstage it if no other pod has it. Repeatable.

        Raises NotUsable if that is impossible now, OSError.
        """
        place = await asyncio.to_thread(stored_place, self._store, ref)
        if place is None or place.plugin != "csi":
            return
        async with self._lock(unique_name(place.driver, place.handle)):
            is_last = bool(place.staging) and not await asyncio.to_thread(self._is_shared, ref, place)
            if place.boot_id == boot_id():  # after a reboot, nothing is mounted any more
                await self._undo(place, is_last=is_last)
            await asyncio.to_thread(_remove, [Path(place.target), Path(place.target).parent])
            if is_last:
                staging = Path(place.staging)
                await asyncio.to_thread(_remove, [staging] if place.is_block else [staging, staging.parent])
        self._tokens.forget(ref)

    async def _undo(self, place: ClaimedPlace, *, is_last: bool) -> None:
        """Unpublish a volume by its driver, and unstage it if `is_last`. Raises NotUsable."""
        driver = self._drivers.get(place.driver)
        if driver is None:
            raise NotUsable(f"volume {place.volume} cannot be unmounted: driver {place.driver} is not registered")
        try:
            await driver.calls.unpublish(place.handle, Path(place.target))
            if is_last:
                await driver.calls.unstage(place.handle, Path(place.staging))
        except CsiError as error:
            why = of_process.redact(str(error))
            raise NotUsable(f"volume {place.volume} cannot be unmounted from {place.target}: {why}") from error

    def _is_shared(self, ref: ObjectRef, place: ClaimedPlace) -> bool:
        """Say whether another pod has the same volume. Blocks."""
        others = [each for each in self._store.versions() if each.origin == "claim" and each != ref]
        places = (stored_place(self._store, each) for each in others)
        return any(each is not None and each.staging == place.staging for each in places)

    async def _found(self, path: str) -> Mapping[str, Any] | None:
        try:
            return await self._client.ask("GET", path)
        except ClusterError as error:
            if error.reason == "NotFound":
                return None
            raise

    async def _attached(self, volume: CsiVolume) -> Mapping[str, str]:
        attachment = await self._found(attachment_path(volume, self._node.name))
        if attachment is None:
            raise NotUsable(f"volume {volume.name} is not attached to this node yet")
        return publish_context(attachment, volume)

    async def _secrets(self, name: SecretName | None) -> Mapping[str, str]:
        """Return the values of a Secret for a driver. They are not stored, and are redacted from now on."""
        if name is None:
            return {}
        ref = ObjectRef("Secret", name.namespace, name.name, "cluster")
        try:
            found = values(given_object(ref, await self._client.ask("GET", name.path)))
        except (ClusterError, Unreachable, NotAnObject) as error:
            raise NotUsable(f'failed to fetch secret "{name.name}" from API server: {error}') from error
        secrets = {key: value.decode(errors="surrogateescape") for key, value in found.items()}
        of_process.add(secrets.values())
        return secrets

    def _make_above(self, uid: str, target: Path) -> None:
        """Create the pod's own directories, and those above `target`. Blocks."""
        make_directories(own_directories(uid, self._node))
        _make(target.parent)

    def _lock(self, name: str) -> asyncio.Lock:
        found = self._alone.get(name) or asyncio.Lock()
        self._alone[name] = found
        return found


def _use(volume: CsiVolume, need: ClaimNeed) -> Use:
    if volume.is_block:
        return Use(volume.access_mode, is_block=True)
    return Use(volume.access_mode, volume.fs_type, volume.mount_flags, need.group)


def _digest(handle: str) -> str:
    return hashlib.sha256(handle.encode("utf-8", "surrogatepass")).hexdigest()


def _make(directory: Path) -> None:
    directory.mkdir(mode=_MODE, parents=True, exist_ok=True)


def _remove(paths: Sequence[Path]) -> None:
    """Remove mount points or files that a driver may have left. Directories that are not empty stay. Blocks."""
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            log.debug("%s is not removed: %s", path, error.strerror)
            return
