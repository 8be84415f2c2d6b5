"""Registers the search attributes of pods' workflows, if this worker is allowed to."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.messages.queries import SEARCH_ATTRIBUTES

log = logging.getLogger(__name__)

_RPC = timedelta(seconds=5)
_SEEN_SECONDS = 15.0
"""Seconds that a server may take to accept new search attributes: it refreshes its caches every few seconds."""
_TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Bool": IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}


async def register_search_attributes(client: Client) -> bool:
    """Register the search attributes if necessary; return whether workflows may write them.

    Called before the worker polls, since writing an unknown attribute fails a workflow task. If they cannot be
    registered, the reason is logged once, and pods do without them.
    """
    try:
        registered = await _registered(client)
        wanted = {name: _TYPES[kind] for name, kind in SEARCH_ATTRIBUTES.items()}
        wrong = [name for name, kind in wanted.items() if registered.get(name, kind) != kind]
        if wrong:
            log.warning("search attributes %s have other types; pods do without them", ", ".join(wrong))
            return False
        missing = {name: kind for name, kind in wanted.items() if name not in registered}
        if missing:
            await _add(client, missing)
            await _until_accepted(client, sorted(missing))
    except RPCError as error:
        log.warning("search attributes cannot be registered (%s); pods do without them", error.message)
        return False
    except TimeoutError:
        log.warning("the server does not accept the search attributes that were registered; pods do without them")
        return False
    return True


async def _registered(client: Client) -> dict[str, IndexedValueType.ValueType]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), retry=True, timeout=_RPC
    )
    return dict(answer.custom_attributes)


async def _add(client: Client, missing: dict[str, IndexedValueType.ValueType]) -> None:
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing), timeout=_RPC
        )
    except RPCError as error:
        # Another worker has registered them first.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise


async def _until_accepted(client: Client, names: list[str]) -> None:
    """Wait until the server accepts queries with the new attributes. Raises TimeoutError."""
    query = " OR ".join(f"{name} IS NOT NULL" for name in names)
    async with asyncio.timeout(_SEEN_SECONDS):
        while True:
            try:
                await client.count_workflows(query, rpc_timeout=_RPC)
            except RPCError as error:
                if error.status != RPCStatusCode.INVALID_ARGUMENT:
                    raise
                await asyncio.sleep(0.1)
            else:
                return
