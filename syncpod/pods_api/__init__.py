"""The kubelet's Pods API: a node's pods, whole, for programs on its machine."""
