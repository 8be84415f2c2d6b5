"""The fleet's decisions, pure: where a pod goes, what a workload's rollout does next, and what follows a lost node."""
