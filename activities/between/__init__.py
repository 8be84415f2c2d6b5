"""The node's own work on pods between their steps: garbage collection, and ending orphans."""
