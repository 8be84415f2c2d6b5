"""ConfigMaps and Secrets as a node keeps them: what a pod refers to, and never a part of its workflow."""
