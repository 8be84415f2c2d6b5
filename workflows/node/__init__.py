"""NodeWorkflow: one durable run per node, which keeps the node's desired pods running."""
