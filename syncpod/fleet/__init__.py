"""The fleet's pure decisions: nodes for pods, the next steps of rollouts, and the fate of pods whose node is lost."""
