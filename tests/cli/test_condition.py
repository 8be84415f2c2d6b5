"""`condition` on a scripted node: conditions of a pod that others set, and readiness gates."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Command
from tests.cli.manifests import as_json, fresh_name, manifest
from tests.workflows.scripted import ScriptedNode

GATE = "example.com/load-balanced"


async def test_a_pod_with_a_readiness_gate_is_ready_only_while_its_condition_is_true(
    syncpod: Command, node: ScriptedNode
) -> None:
    """Row 100: Ready with ReadinessGatesNotReady, from the command line."""
    name, on = fresh_name(), ("--node", node.queue.removeprefix("node/"))
    document = manifest(name)
    document["spec"]["readinessGates"] = [{"conditionType": GATE}]
    done = await syncpod("apply", "-f", "-", *on, stdin=as_json(document))
    assert done.code == 0, done.err

    async def ready(status: str) -> dict[str, str]:
        waited = await syncpod("wait", f"--for=condition=Ready={status}", f"pod/{name}", "--timeout", "30s")
        assert waited.code == 0, waited.err
        pod = json.loads((await syncpod("get", "pod", name, "-o", "json")).out)
        return {each["type"]: each for each in pod["status"]["conditions"]}[  # type: ignore[no-any-return]
            "Ready"
        ]

    await ready("False")
    done = await syncpod("condition", name, f"{GATE}=true", "--reason", "Registered", "--message", "3 of 3")
    assert (done.code, done.out) == (0, f"pod/{name} condition {GATE} is True\n")
    await ready("True")
    assert GATE in (await syncpod("describe", name)).out
    assert (await syncpod("condition", f"pod/{name}", f"{GATE}=Unknown")).code == 0
    condition = await ready("False")
    assert condition["reason"] == "ReadinessGatesNotReady"
    assert condition["message"] == f'the status of pod readiness gate "{GATE}" is not "True", but Unknown'


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (GATE, "say TYPE=STATUS"),
        (f"{GATE}=yes", "the status must be True, False or Unknown"),
        ("Ready=True", "Ready is the node's own to set"),
        ("a/b/c=True", "must have a lower-case DNS subdomain before its '/'"),
    ],
)
async def test_an_invalid_condition_is_refused_in_one_sentence(
    syncpod: Command, node: ScriptedNode, assignment: str, sentence: str
) -> None:
    name, on = fresh_name(), ("--node", node.queue.removeprefix("node/"))
    await syncpod("apply", "-f", "-", *on, stdin=as_json(manifest(name)))
    done = await syncpod("condition", name, assignment)
    assert done.code == 2
    assert sentence in done.err


async def test_a_condition_of_a_missing_pod_is_refused(syncpod: Command) -> None:
    done = await syncpod("condition", "nowhere", f"{GATE}=True")
    assert done.code == 1
    assert "not found" in done.err
