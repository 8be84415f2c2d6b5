"""Connects the fleet's commands and workers to the fleet's server, with the fleet's keys.

The keys sign commands, encrypt stored data and seal messages to nodes. They are in the fleet's directory, beside its
certificate authority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import Runtime
from temporalio.service import RPCError

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.messages.encryption import FLEET, KEY, is_key_missing
from syncpod.messages.held_fleet import HELD_QUERY, LOOKED_AT, held_fleet, holds_another
from syncpod.messages.signature import Keys
from syncpod.signing.keys import EncryptingKeys, make_signing_keys
from syncpod.temporal.plugin import connect
from syncpod.temporal.sealing import FleetCodec, FleetKeys, fleet_converter

_RPC: Final = timedelta(seconds=5)


class OtherFleet(Exception):
    """The server has the workflows of another fleet than that of these keys. The text is a sentence."""


class KeyMissing(Exception):
    """The server's data of the fleet is encrypted with keys that this machine lacks. The text is a clause."""


@dataclass(frozen=True)
class FleetAccess:
    """The keys that command a fleet and run its workflows."""

    keys: Keys
    """The keys that sign commands and encrypt payloads."""
    sealing: FleetKeys
    """The keys that seal messages to nodes."""

    def converter(self, *, verifies: bool) -> DataConverter:
        """Return the data converter of a client; with `verifies`, of a worker, which accepts only signed payloads."""
        return fleet_converter(FleetCodec(self.keys, self.sealing, verifies=verifies))


def access_to(state_dir: Path) -> FleetAccess:
    """Return the access to the fleet in a state directory, which is created at its first use. Blocks.

    Raises SettingsInvalid, OSError.
    """
    fleet = open_fleet(fleet_directory(state_dir), now())
    return FleetAccess(EncryptingKeys(make_signing_keys(fleet.directory)), FleetSealingKeys(fleet, now))


def object_sealing_of(state_dir: Path) -> ObjectSealing:
    """Return the sealing of ConfigMaps and Secrets of the fleet in a state directory. Blocks.

    Raises SettingsInvalid, OSError.
    """
    return ObjectSealing(FleetSealingKeys(open_fleet(fleet_directory(state_dir), now()), now))


async def connect_to_fleet(
    settings: ClientConnectConfig, access: FleetAccess, identity: str = "", runtime: Runtime | None = None
) -> Client:
    """Connect to the fleet's server, to command the fleet. Raises NoServer."""
    return await connect(
        settings=settings,
        keys=access.keys,
        converter=access.converter(verifies=False),
        identity=identity or None,
        runtime=runtime,
        begun_by="syncpod server",
    )


async def check_whose(client: Client, access: FleetAccess) -> None:
    """Raise OtherFleet if the client's namespace holds a fleet, but not this one.

    Nothing is raised if the server cannot list workflows now, since workflows refuse another fleet's commands anyway.
    """
    _require_own(client, access, await _memo_metadata(client))


async def check_commander(client: Client, access: FleetAccess) -> None:
    """Raise OtherFleet as `check_whose` does, and KeyMissing if our keys decrypt nothing of this fleet on the server.

    A workflow that receives a command with an unknown key cannot go on until the server has dropped the command.
    """
    said = await _memo_metadata(client)
    _require_own(client, access, said)
    own = [each for each in said if each.get(FLEET) == access.sealing.fleet.encode()]
    if own and all(is_key_missing(access.keys.by_id, each) for each in own):
        named = own[0].get(KEY, b"").decode(errors="replace")[:64]
        raise KeyMissing(f"lacks the key {named!r} that the fleet's server is encrypted with")


async def _memo_metadata(client: Client) -> list[dict[str, bytes]]:
    """Return the metadata of the workflows' memos, which names their fleet; empty if workflows cannot be listed now."""
    listed = client.list_workflows(HELD_QUERY, limit=LOOKED_AT, page_size=LOOKED_AT, rpc_timeout=_RPC)
    try:
        return [dict(one.metadata) async for each in listed for one in each.raw_info.memo.fields.values()]
    except RPCError:
        return []


def _require_own(client: Client, access: FleetAccess, said: Sequence[Mapping[str, bytes]]) -> None:
    own = access.sealing.fleet
    if (held := held_fleet(own, said)) not in (own, ""):
        raise OtherFleet(holds_another(client.namespace, held, own))


def verifying_client(client: Client, access: FleetAccess) -> Client:
    """Return a worker's client on the same connection: commands to its workflows and steps are verified."""
    config = client.config()
    config["data_converter"] = access.converter(verifies=True)
    return Client(**config)
