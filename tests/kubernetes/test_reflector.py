"""The list of a node's pods follows an API server, however badly the server answers.

Holds: A list of a Kubernetes cluster that is cut off, or is none, ends no pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from syncpod.kubernetes import reflector as module
from syncpod.kubernetes.client import ApiClient, ClusterError, Unreachable
from syncpod.kubernetes.kubeconfig import read_kubeconfig
from syncpod.kubernetes.reflector import Backoff, Reflector, is_expired
from tests.agent.waiting import until
from tests.kubernetes.api_server import TOKEN, ApiServer, Fault, pod, pod_path, served, write_kubeconfig


@pytest_asyncio.fixture
async def api() -> AsyncIterator[ApiServer]:
    """A server with the pods a and b."""
    async with served() as server:
        for name in ("a", "b"):
            await server.put(pod_path(name), pod(name))
        yield server


@contextlib.asynccontextmanager
async def following(api: ApiServer, tmp_path: Path) -> AsyncIterator[Reflector]:
    """Run a reflector."""
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api))
    async with ApiClient(config, user_agent="test") as client:
        reflector = Reflector(
            client, "/api/v1/pods", "Pod", params={"fieldSelector": "spec.nodeName=n1"}, chance=lambda: 0.0
        )
        running = asyncio.create_task(reflector.run())
        try:
            yield reflector
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits after failures."""
    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.01, 0.02))


def names(reflector: Reflector) -> set[str]:
    """The names of the pods in its list."""
    return {key.name for key in reflector.objects}


def _has(reflector: Reflector, name: str) -> bool:
    return name in names(reflector)


async def test_additions_changes_and_removals_come_by_the_watch(api: ApiServer, tmp_path: Path) -> None:
    async with following(api, tmp_path) as reflector:
        await until(lambda: names(reflector) == {"a", "b"})
        await api.put(pod_path("c"), pod("c"))
        await api.remove(pod_path("a"))
        await until(lambda: names(reflector) == {"b", "c"})
        await api.put(pod_path("b"), pod("b", metadata={"labels": {"new": "yes"}}))
        await until(lambda: any(each["metadata"].get("labels") for each in reflector.objects.values()))
    assert api.calls["GET pods"] == 1


@pytest.mark.parametrize("what", ["cut", "html", "empty", "500", "403", "429"])
async def test_a_list_that_is_none_changes_nothing(api: ApiServer, tmp_path: Path, what: str) -> None:
    api.faults.extend([Fault("GET", "/pods", what)] * 2)
    async with following(api, tmp_path) as reflector:
        await until(lambda: bool(reflector.trouble) or reflector.is_complete)
        assert not reflector.objects
        await until(lambda: names(reflector) == {"a", "b"})
        # Later, the same answers leave what is known as it is.
        api.faults.extend([Fault("GET", "/pods", what)] * 2)
        api.forget_history()
        api.version += 1
        api.forget_history()
        api.cut_watches()
        seen: set[frozenset[str]] = set()

        def has_listed_again() -> bool:
            seen.add(frozenset(names(reflector)))
            return api.calls["GET pods"] >= 6

        await until(has_listed_again)
        assert seen == {frozenset({"a", "b"})}


async def test_a_watch_that_is_cut_is_followed_by_a_list_and_another_watch(api: ApiServer, tmp_path: Path) -> None:
    async with following(api, tmp_path) as reflector:
        await until(lambda: names(reflector) == {"a", "b"})
        for number in range(5):
            api.cut_watches()
            await api.put(pod_path(f"p{number}"), pod(f"p{number}"))
            await until(partial(_has, reflector, f"p{number}"))
        await api.remove(pod_path("p0"))
        await until(lambda: "p0" not in names(reflector))


async def test_a_database_that_was_restored_from_a_backup_is_followed_though_its_versions_are_lower(
    api: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backup = api.backup()
    async with following(api, tmp_path) as reflector:
        await api.remove(pod_path("a"))
        for number in range(10):
            await api.put(pod_path("new"), pod("new", metadata={"labels": {"turn": str(number)}}))
        await until(lambda: names(reflector) == {"b", "new"} and api.watches == 1)
        api.restore(backup)
        await until(lambda: names(reflector) == {"a", "b"})
        await api.put(pod_path("later"), pod("later"))
        await until(lambda: "later" in names(reflector))
    assert "restored from a backup" in caplog.text


async def test_a_version_that_the_server_has_forgotten_is_followed_by_a_list(api: ApiServer, tmp_path: Path) -> None:
    async with following(api, tmp_path) as reflector:
        await until(lambda: api.calls["GET watch"] == 1)
        api.skipped.add("a")
        await api.remove(pod_path("a"))
        api.forget_history()
        api.cut_watches()
        await until(lambda: names(reflector) == {"b"})
    assert api.calls["GET pods"] == 2


async def test_an_event_that_no_watch_tells_is_made_up_for_by_the_next_list(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHORTEST_WATCH", 1)
    monkeypatch.setattr(module, "LIST_SECONDS", 1.0)
    async with following(api, tmp_path) as reflector:
        await until(lambda: names(reflector) == {"a", "b"})
        api.skipped.add("a")
        await api.remove(pod_path("a"))
        await until(lambda: names(reflector) == {"b"})


async def test_a_server_that_hangs_is_asked_again(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_SECONDS", 0.1)
    api.faults.append(Fault("GET", "/pods", "hang"))
    async with following(api, tmp_path) as reflector:
        await until(lambda: "no answer in 0.1 s" in reflector.trouble)
        monkeypatch.setattr(module, "LIST_SECONDS", 60.0)
        await until(lambda: names(reflector) == {"a", "b"} and not reflector.trouble)


async def test_another_authority_is_not_believed(api: ApiServer, tmp_path: Path) -> None:
    async with served() as another:
        another.url = api.url
        config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", another))
        async with ApiClient(config, user_agent="test") as client:
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.ask("GET", "/api/v1/pods")
    assert not api.calls


async def test_a_token_that_was_rotated_is_read_again(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api, tokenFile="token"))  # a path
    async with ApiClient(config, user_agent="test") as client:
        with pytest.raises(ClusterError, match="no such token"):
            await client.ask("GET", pod_path("a"))
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        with pytest.raises(ClusterError, match="no such token"):
            await client.ask("GET", pod_path("a"))
        assert (await client.ask("GET", pod_path("a")))["metadata"]["name"] == "a"


async def test_a_refusal_is_the_servers_sentence(api: ApiServer, tmp_path: Path) -> None:
    config = read_kubeconfig(write_kubeconfig(tmp_path / "node.conf", api, token="another"))  # refused
    async with ApiClient(config, user_agent="test") as client:
        with pytest.raises(ClusterError) as refused:
            await client.ask("GET", "/api/v1/pods")
    assert (refused.value.code, refused.value.reason, str(refused.value)) == (401, "Unauthorized", "no such token")


def test_waits_double_up_to_the_longest_and_are_as_long_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.8, 30.0))
    now = [0.0]
    backoff = Backoff(lambda: now[0], lambda: 0.5)
    error = Unreachable("it is away")
    assert [round(backoff.next(error), 1) for _ in range(7)] == [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0]
    assert backoff.next(ClusterError(429, retry_after=99.0)) == 99.0
    now[0] = 1000.0
    assert round(backoff.next(error), 1) == 1.2


def test_a_version_is_forgotten_by_status_or_reason() -> None:
    assert is_expired(ClusterError(410))
    assert is_expired(ClusterError(500, reason="Expired"))
    assert not is_expired(ClusterError(500))
    assert not is_expired(Unreachable("gone"))
