"""The socket between worker and runtime, in front of the embedded runtime."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncpod.cri.client import CriClient
from tests.agent.waiting import until, until_asked
from tests.e2e.faults_proxy import CriProxy
from tests.runtimes.bare import BareCri
from tests.runtimes.embedded import Embedded


@pytest.fixture
def runtime() -> Iterator[Embedded]:
    with Embedded.launch("--simulate") as launched:
        yield launched


async def test_what_the_runtime_announces_passes_as_it_comes(tmp_path: Path, runtime: Embedded) -> None:
    heard: list[str] = []

    async def listen(client: CriClient) -> None:
        async for event in client.container_events():
            heard.append(event.id)

    async with (
        CriProxy(tmp_path / "cri.sock", runtime.endpoint) as proxy,
        CriClient(proxy.endpoint) as client,
        BareCri(proxy.endpoint) as cri,
    ):

        async def run() -> str:
            pod = await cri.start_pod(cri.sandbox_config("told"))
            await cri.remove_pod(pod)
            return pod.sandbox_id

        async def is_open() -> bool:
            """Whether the stream has sent an event about a pod; its first event is the next one after its opening."""
            await run()
            return bool(heard) or listening.done()

        listening = asyncio.create_task(listen(client))
        try:
            await until_asked(is_open)
            sandbox = await run()
            await until(lambda: sandbox in heard or listening.done())
            assert not listening.done(), "the stream stays open"
        finally:
            listening.cancel()
