"""What is done to pods between their steps, on the node's own account: collection, and the end of orphans."""
