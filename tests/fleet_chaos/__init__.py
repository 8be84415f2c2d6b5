"""A fleet of four nodes, broken as machines, links, databases and servers break, and judged from outside.

`python -m tests.fleet_chaos --pods 200` makes the nodes, each with a containerd and a Temporal server of its own in a
network namespace of its own, and a cluster of PostgreSQL and two Temporal servers (docs/fleet-faults.md). It is not
part of `make test`; its judge is.
"""
