"""The workflow ids of pods and nodes."""

from __future__ import annotations

from syncpod.messages.identity import WORKFLOW_ID_LIMIT, node_task_queue, pod_workflow_id

LONGEST_NAMESPACE, LONGEST_NAME = "n" * 63, "p" * 253


def test_an_id_is_readable_where_a_server_takes_it() -> None:
    assert pod_workflow_id("default", "web") == "pod/default/web"
    assert node_task_queue("n1") == "node/n1"
    fits = "p" * (WORKFLOW_ID_LIMIT - len("pod/default/"))
    assert pod_workflow_id("default", fits) == f"pod/default/{fits}"


def test_ids_of_the_longest_names_fit_the_servers_limit_and_differ() -> None:
    ids = {pod_workflow_id(LONGEST_NAMESPACE, f"{LONGEST_NAME[:-1]}{end}") for end in "abc"}
    assert len(ids) == 3
    assert {len(id_.encode()) for id_ in ids} == {WORKFLOW_ID_LIMIT}
    assert len(node_task_queue("ä" * 253).encode()) <= WORKFLOW_ID_LIMIT
