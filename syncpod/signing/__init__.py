"""The keys that sign commands to a node, and servers that sign for Temporal's own tools, ``temporal`` and ``tctl``."""
