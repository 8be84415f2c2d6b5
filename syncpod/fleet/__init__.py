"""The fleet's pure decisions: where a pod goes, what a rollout does next, and what happens when a node is lost."""
