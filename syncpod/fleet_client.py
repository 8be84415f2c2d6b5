"""Connects to a fleet's server as the fleet itself: stored data is encrypted, and messages to nodes are sealed.

The keys are in the fleet's directory, beside its certificate authority. The fleet's commands and workers read them
there.
"""

from __future__ import annotations

from pathlib import Path

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import Runtime

from syncpod.gate.authority import now, open_fleet
from syncpod.gate.gate import fleet_directory
from syncpod.gate.object_sealing import ObjectSealing
from syncpod.gate.sealing_keys import FleetSealingKeys
from syncpod.signing.keys import make_signing_keys
from syncpod.temporal.plugin import connect
from syncpod.temporal.sealing import FleetCodec, fleet_converter


def converter_of(state_dir: Path) -> DataConverter:
    """Return the data converter of the fleet in a state directory, which is created at its first use. Blocks.

    Raises SettingsInvalid, OSError.
    """
    fleet = open_fleet(fleet_directory(state_dir), now())
    return fleet_converter(FleetCodec(make_signing_keys(fleet.directory), FleetSealingKeys(fleet, now)))


def object_sealing_of(state_dir: Path) -> ObjectSealing:
    """Return the sealing of ConfigMaps and Secrets of the fleet in a state directory. Blocks.

    Raises SettingsInvalid, OSError.
    """
    return ObjectSealing(FleetSealingKeys(open_fleet(fleet_directory(state_dir), now()), now))


async def connect_to_fleet(
    settings: ClientConnectConfig, converter: DataConverter, identity: str = "", runtime: Runtime | None = None
) -> Client:
    """Connect to the fleet's server. Raises NoServer."""
    return await connect(settings=settings, converter=converter, identity=identity or None, runtime=runtime)
