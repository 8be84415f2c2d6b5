"""Whether a container may have got a value of a Secret that the node no longer has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from syncpod.node.directories import plan_pod, prepare_pod
from syncpod.node.pod_records import PodRecord, write_pod_record
from syncpod.node.secret_values import may_have_unknown
from syncpod.objects import ObjectStore
from syncpod.translation.context import NodeContext
from tests.translation.translation import NODE, UID, make_pod

PLAIN: dict[str, Any] = {}
ENV = {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]}
MAPPED = {"envFrom": [{"configMapRef": {"name": "a"}}]}
BEFORE, AFTER = timedelta(hours=-1), timedelta(hours=1)
"""The time from a test's begin to the container's."""


@pytest.fixture
def node(tmp_path: Path) -> NodeContext:
    return replace(NODE, state_dir=tmp_path / "state", memory_dir=tmp_path / "memory", log_dir=tmp_path / "logs")


@pytest.mark.parametrize(
    ("uses", "begins", "is_unknown"),
    [
        (ENV, BEFORE, True),
        (ENV, None, True),
        (ENV, AFTER, False),
        (PLAIN, BEFORE, False),
        (MAPPED, BEFORE, False),
        (None, BEFORE, True),
        (None, AFTER, False),
    ],
    ids=["old", "of unknown age", "new", "without Secrets", "ConfigMap", "no record", "new without a record"],
)
def test_only_what_an_old_container_with_secrets_has_said_is_withheld(
    node: NodeContext, uses: dict[str, Any] | None, begins: timedelta | None, is_unknown: bool
) -> None:
    store = ObjectStore(node.state_dir, node.memory_dir)
    store.begin_knowing()
    if uses is not None:
        pod = make_pod({"containers": [{"name": "main", "image": "b:1", **uses}]})
        prepare_pod(plan_pod(pod, node), store)
        write_pod_record(node, PodRecord(pod=pod))
    began = None if begins is None else datetime.now(UTC) + begins
    assert may_have_unknown(node, store, UID, began) is is_unknown
