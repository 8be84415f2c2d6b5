"""The nodes that the loss of a sealing key would cut off, and the messages about things that need a key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncpod.cli.actions.fleet_sealing_key import _require_unneeded
from syncpod.cli.failure import Failure
from syncpod.cli.temporal.sealing_keys import Certified, Needs, nodes_without
from syncpod.messages.fleet import FleetNodeSummary

USED = datetime(2026, 1, 2, tzinfo=UTC)
BEFORE, AFTER = USED - timedelta(hours=1), USED + timedelta(hours=1)


@pytest.mark.parametrize(
    ("trusted", "invited", "is_cut_off"),
    [
        ("old", BEFORE, True),
        ("old", AFTER, True),  # it has not joined with the new invitation yet
        ("new", BEFORE, False),
        ("older", BEFORE, False),  # the key is not the one that it needs
        ("", BEFORE, True),
        ("", AFTER, False),
        (None, BEFORE, True),  # it was invited, and never came
        (None, AFTER, False),
    ],
)
def test_nodes_that_would_not_believe_the_fleet_without_a_key(
    trusted: str | None, invited: datetime, is_cut_off: bool
) -> None:
    known = [] if trusted is None else [FleetNodeSummary(name="n1", fleet_key=trusted)]
    assert nodes_without(known, [Certified("n1", invited)], "old", USED) == (["n1"] if is_cut_off else [])


def test_a_node_without_a_valid_certificate_needs_no_key() -> None:
    """Its certificate was revoked or has expired, so it needs a new invitation anyway."""
    assert nodes_without([FleetNodeSummary(name="n1", fleet_key="old")], [], "old", USED) == []


@pytest.mark.parametrize(
    ("needs", "ended", "said", "is_forced"),
    [
        (
            Needs(nodes=("n1", "n2", "n3", "n4", "n5")),
            0,
            "n1, n2, n3 and 2 more would refuse the fleet",
            True,
        ),
        (
            Needs(objects=("Secret/default/a",)),
            0,
            "Secret/default/a could not be read .* key use new`",
            False,
        ),
        (Needs(workflows=("fleet-node/n1",)), 0, "fleet-node/n1 could no longer be replayed without it", False),
        (Needs(), 3, "3 closed runs cannot be read without it", True),
    ],
)
def test_what_needs_a_key_is_named(needs: Needs, ended: int, said: str, is_forced: bool) -> None:
    with pytest.raises(Failure, match=said):
        _require_unneeded("old", "new", needs, ended, force=False)
    if is_forced:
        _require_unneeded("old", "new", needs, ended, force=True)
    else:
        with pytest.raises(Failure, match=said):
            _require_unneeded("old", "new", needs, ended, force=True)


def test_nothing_needs_it() -> None:
    _require_unneeded("old", "new", Needs(), 0, force=False)
