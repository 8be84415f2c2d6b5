"""Breaks machines, links, databases and servers of a fleet of four nodes, and judges the fleet from outside.

`python -m qa.fleet_chaos --pods 200` makes the nodes and a cluster of PostgreSQL and two Temporal servers. Each node
has its own containerd, Temporal server and network namespace (docs/fleet-faults.md). This is not part of `make test`,
but the tests of its judge are.
"""
