"""A command's connection to Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.settings import settings
from syncpod.cli.state_directory import running_server

if TYPE_CHECKING:
    from temporalio.client import Client
    from temporalio.envconfig import ClientConnectConfig

_Result = TypeVar("_Result")


def connection(state_dir: str = "") -> ClientConnectConfig:
    """Return where to connect: as configured for the ``temporal`` CLI, else to this machine's own dev server.

    Raises BadInput where the configuration cannot be read.
    """
    from syncpod.plugin import DEFAULT_ADDRESS, NoServer, connection_settings

    own = running_server(settings(state_dir=state_dir).state_dir)
    try:
        return connection_settings(default_address=own.address if own else DEFAULT_ADDRESS)
    except NoServer as error:
        raise BadInput(str(error)) from None


async def connect(config: ClientConnectConfig) -> Client:
    """Connect to the Temporal server. Raises BadInput where there is none."""
    from syncpod import plugin

    try:
        return await plugin.connect(settings=config)
    except plugin.NoServer as error:
        raise BadInput(str(error)) from None


def run(work: Callable[[Client], Awaitable[_Result]], *, state_dir: str = "") -> _Result:
    """Connect, do the work and return its result; what the server refuses becomes a Failure."""
    return run_on(connection(state_dir), work)


def run_on(config: ClientConnectConfig, work: Callable[[Client], Awaitable[_Result]]) -> _Result:
    """Do the same on a server that is known."""
    from temporalio.service import RPCError

    async def connected() -> _Result:
        return await work(await connect(config))

    try:
        return asyncio.run(connected())
    except RPCError as error:
        raise Failure(f"the Temporal server fails: {error.message or error.status.name}") from None
