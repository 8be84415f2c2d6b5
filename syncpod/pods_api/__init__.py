"""The kubelet's Pods API: the complete pods of a node, for programs on its machine."""
