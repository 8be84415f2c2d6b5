"""When a server counts as unavailable, and when as available again."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from syncpod.temporal import outage
from syncpod.temporal.outage import until_away, until_back

GONE = RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")
SLOW = RPCError("timed out", RPCStatusCode.DEADLINE_EXCEEDED, b"")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "PROBE_SECONDS", 0)


def client(health: Iterator[bool | Exception], namespace: Iterator[bool | Exception]) -> Client:
    """A client whose server gives these answers; more calls are errors."""

    async def answer(answers: Iterator[bool | Exception]) -> bool:
        said = next(answers)
        if isinstance(said, Exception):
            raise said
        return said

    def check_health(**_: Any) -> Any:
        return answer(health)

    def describe_namespace(*_: Any, **__: Any) -> Any:
        return answer(namespace)

    return cast(
        Client,
        SimpleNamespace(
            namespace="default",
            service_client=SimpleNamespace(check_health=check_health),
            workflow_service=SimpleNamespace(describe_namespace=describe_namespace),
        ),
    )


@pytest.mark.parametrize("sign", [GONE, SLOW, False], ids=["gone", "slow", "not serving"])
async def test_a_server_is_away_as_soon_as_it_does_not_serve(sign: bool | Exception) -> None:
    health = iter([True, True, sign, True])
    await until_away(client(health, iter([])))
    assert list(health) == [True]


async def test_a_server_is_back_when_it_serves_and_has_its_namespace() -> None:
    health: Iterator[bool | Exception] = iter([GONE, False, True, True, True])
    namespace: Iterator[bool | Exception] = iter([GONE, True, True])
    await until_back(client(health, namespace))
    assert (list(health), list(namespace)) == ([True], [True])
