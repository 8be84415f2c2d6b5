"""The kubelet's podresources API: the resources of a machine that are allocated to pods."""
