"""How many requests an apply sends on the machine of the pods' node, whose worker answers the rest from memory."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from temporalio.service import _BridgeServiceClient

from syncpod.cli.main import run
from tests.cli.conftest import program
from tests.cli.manifests import as_json, manifest

NODE = "vm-one-request"
LIMITS = {"resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}

Apply = Callable[..., tuple[int, str, str]]
"""Applies manifests in this process; returns the exit code, the output and the errors."""


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a simulated node that runs."""
    state = tmp_path_factory.mktemp("one")
    environ = {"SYNCPOD_STATE_DIR": str(state / "state"), "SYNCPOD_MEMORY_DIR": str(state / "memory")}
    environ["TEMPORAL_CONFIG_FILE"] = os.devnull
    try:
        upped = program("up", "--simulate", "--node", NODE, environ=environ)
        assert upped.code == 0, upped.err
        yield environ
    finally:
        program("down", "--purge", environ=environ)


@pytest.fixture
def apply(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Apply:
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("syncpod.cli.temporal.pod_apply._SOON_SECONDS", 3600)

    def applied(*manifests: dict[str, Any]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_json(*manifests).encode())))
        capsys.readouterr()
        return run(["apply", "-f", "-"]), *capsys.readouterr()

    return applied


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that commands of this process send to the server, beside the SDK's own when it connects."""
    sent: list[str] = []
    send = _BridgeServiceClient._rpc_call

    async def counted(self: Any, rpc: str, *args: Any, **more: Any) -> Any:
        sent.append(rpc)
        return await send(self, rpc, *args, **more)

    monkeypatch.setattr(_BridgeServiceClient, "_rpc_call", counted)
    return sent


def pod(name: str, *, labelled: bool = False, **of_container: Any) -> dict[str, Any]:
    document = manifest(name)
    document["spec"]["containers"][0] |= of_container
    return document | {"metadata": document["metadata"] | ({"labels": {"app": "web"}} if labelled else {})}


@pytest.mark.parametrize("of_container", [{}, LIMITS], ids=["a pod", "a pod with limits"])
def test_an_apply_of_an_existing_pod_is_one_request(
    apply: Apply, sent: list[str], of_container: dict[str, Any]
) -> None:
    name = f"one-{'l' if of_container else 'n'}"
    assert apply(pod(name, **of_container))[0] == 0
    for labelled, answer in ((False, "unchanged"), (True, "configured")):
        sent.clear()
        assert apply(pod(name, labelled=labelled, **of_container)) == (0, f"pod/{name} {answer}\n", "")
        assert sent == ["execute_multi_operation"], answer


def test_a_new_pod_is_one_request_too_and_a_cordon_holds_at_once(
    apply: Apply, sent: list[str], environ: dict[str, str]
) -> None:
    assert apply(pod("old")) == (0, "pod/old created\n", "")
    assert sent == ["execute_multi_operation"]
    refusal = f"node {NODE} is cordoned, and takes no new pod: `syncpod uncordon {NODE}`"
    for at in range(5):
        assert program("cordon", NODE, environ=environ).code == 0
        assert apply(pod("old", labelled=bool(at % 2)))[0] == 0, "a change is none of a new pod"
        sent.clear()
        assert apply(pod("old"), pod(f"new-{at}")) == (1, "", f"syncpod: pod new-{at}: {refusal}\n")
        assert "execute_multi_operation" not in sent, "nothing is applied"
        assert program("uncordon", NODE, environ=environ).code == 0
        assert apply(pod(f"new-{at}")) == (0, f"pod/new-{at} created\n", ""), "at once"


@pytest.mark.parametrize("words", [("apply", "-f", "-"), ("get", "pods"), ("delete", "pod", "a", "--ignore-not-found")])
def test_another_namespace_than_the_workers_must_exist(environ: dict[str, str], words: tuple[str, ...]) -> None:
    done = program(*words, environ=environ | {"TEMPORAL_NAMESPACE": "nowhere"}, stdin=as_json(pod("a")))
    assert (done.code, done.out) == (2, "")
    assert " has no namespace nowhere: create it (`temporal operator namespace create nowhere`), or name" in done.err
