"""The kubelet's podresources API (v1): the resources of its machine that a node has assigned to pods."""
