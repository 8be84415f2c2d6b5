"""All trials by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from qa.cluster_outages import away, hollow, killed, rights, server_faults
from qa.cluster_outages.room import Room

TRIALS: Final[dict[str, Callable[[Room], str]]] = {
    "pods-go-on": away.pods_go_on,
    "resize-goes-on": away.a_resize_goes_on,
    "reboot": away.a_reboot_without_it,
    "missed-deletion": away.a_missed_deletion,
    "updates": server_faults.restarts_during_updates,
    "backup": server_faults.an_older_backup,
    "half-open": server_faults.a_half_open_connection,
    "clocks": server_faults.clocks_apart,
    "killed-start": killed.killed_at_points(killed.START),
    "killed-delete": killed.killed_at_points(killed.DELETE),
    "killed-status": killed.killed_at_points(killed.STATUS),
    "killed-token": killed.killed_at_points(killed.TOKEN),
    "hollow": hollow.a_thousand_pods,
    "rights": rights.the_nodes_key,
}
"""Each returns its numbers as a clause, or raises Fell."""
