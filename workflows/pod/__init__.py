"""PodWorkflow: one durable run per pod. Start with `workflow`, which is the loop; then `inbox`, `absorb`, `decide`."""
