"""NodeWorkflow: one durable run per node, which keeps the node to the pods that are desired of it."""
