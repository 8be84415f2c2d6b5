"""A node returns after its certificate expired, its fleet's key was lost, or its files were restored from a backup."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from syncpod.agent.fleet.kept_intent import FILE_NAME, read_intent
from syncpod.gate.authority import now
from syncpod.settings.membership import keep_membership
from tests.e2e.test_fleet import FleetOfOne, Node, fleet, node, pod, words
from tests.e2e.test_fleet_sealing_key import is_back, removed_from_nodes, sealing_keys, until

__all__ = ["fleet", "node"]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_returns_whatever_went_while_it_was_away(node: Node, fleet: FleetOfOne) -> None:
    name = node.name
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.expect(name, grace=5)
    await fleet.until(name, is_back)
    await fleet.say("apply", "-f", "-", stdin=pod("web", name))
    await fleet.until(name, lambda view: words(view) == {"web": "Running"})

    async def is_away() -> None:
        node.kill()
        await fleet.until(name, lambda view: view.presence == "Unknown")

    await is_away()  # requests meanwhile are sealed for the certificate that it no longer has
    keep_membership(node.state_dir, fleet.invitation(name))
    await node.serve()
    await fleet.until(name, is_back)

    await is_away()
    first = (await sealing_keys(fleet))[0][0]
    await fleet.say("key", "rotate", "--sealing")
    await removed_from_nodes(fleet, first)
    await node.serve()
    view = await fleet.until(name, is_back)  # a request meanwhile had announced the new key
    assert view.fleet_key == (await sealing_keys(fleet))[0][0]

    pair = fleet.authority.issue(name, timedelta(seconds=20), now())
    keep_membership(node.state_dir, replace(fleet.invitation(name), certificate=pair.certificate, key=pair.key))
    await fleet.until(name, lambda view: view.presence == "Unknown")  # it has expired, on an open connection
    told = f"fleet {fleet.authority.id} at 127.0.0.1:{fleet.port} does not answer, or does not let this node in: "
    await until(lambda: told in (node.directory / "stderr").read_text())
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.until(name, is_back)
    assert words(view) == {"web": "Running"}
    said = (node.directory / "stderr").read_text()
    assert "Traceback" not in said, said
    assert "is refused: it was sealed for another key (the fleet asked it for an earlier certificate" in said


@pytest.mark.asyncio(loop_scope="session")
async def test_a_node_whose_files_are_restored_from_a_backup_gets_its_newest_list(
    node: Node, fleet: FleetOfOne
) -> None:
    """Before, the old list stayed until the fleet's next command for the node."""
    name, file = node.name, node.state_dir / FILE_NAME
    keep_membership(node.state_dir, fleet.invitation(name))
    await fleet.expect(name, grace=50)
    await fleet.until(name, is_back)
    await fleet.say("apply", "-f", "-", stdin=pod("before", name))
    await fleet.until(name, lambda view: words(view) == {"before": "Running"})
    backup = file.read_bytes()
    await fleet.say("delete", "pod", "before")
    await fleet.say("apply", "-f", "-", stdin=pod("after", name))
    view = await fleet.until(name, lambda view: words(view) == {"after": "Running"})
    node.kill()
    file.write_bytes(backup)
    old = read_intent(node.state_dir).generation
    await node.serve()
    view = await fleet.until(name, lambda view: "LostIntent" in {each.reason for each in view.events})
    assert old < view.generation
    await fleet.until(name, lambda view: view.taken == view.generation and words(view) == {"after": "Running"})
    assert read_intent(node.state_dir).generation == view.generation, "and no command was needed"
