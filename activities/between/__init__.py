"""What the node itself does to pods between their steps: garbage collection, and ending orphans."""
