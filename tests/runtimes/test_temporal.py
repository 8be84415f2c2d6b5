"""The private Temporal dev server: it is a real one, and its database outlives it."""

import urllib.request

from temporalio.client import Client

from tests.runtimes.temporal import DevServer


async def test_a_workflow_outlives_a_kill_of_the_server(temporal_server: DevServer) -> None:
    client = await Client.connect(temporal_server.address, namespace=temporal_server.namespace)
    await client.start_workflow("Nothing", id="kept", task_queue="nobody")
    before = temporal_server.pid
    temporal_server.restart()
    assert temporal_server.pid != before
    description = await client.get_workflow_handle("kept").describe()
    assert description.workflow_type == "Nothing"
    await client.get_workflow_handle("kept").terminate()


def test_its_web_ui_answers(temporal_server: DevServer) -> None:
    with urllib.request.urlopen(temporal_server.ui) as page:
        assert page.status == 200
