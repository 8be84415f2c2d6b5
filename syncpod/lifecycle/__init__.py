"""The decisions of a pod's life, as the kubelets 1.36 and 1.37 take them: values in, values out.

Nothing here reads a clock, calls a runtime or Temporal, or keeps state. In the order you meet them:

- `observed`: the runtime's listings of a pod, merged into a view that only moves forward.
- `exit`: the one record of how an instance of a container ended.
- `compute`: the decision of one sync, with a module for each part of it: `sandbox`, `init_containers`, `restart`,
  `resize`, `restart_all`. It returns a `PodActions` (`actions`), and `plan` turns that into ordered steps.
- `kill_cause`: the cause of a kill, as a value for programs.
- `restart_pacing`, `backoff`: when a start is allowed. `start_errors`: whether a failed start may have run a process.
- `termination`: the grace of each container of an ending pod, and which containers wait for which.
- `status`: the pod's API status, made from `phase`, `conditions`, `container_status`, `qos` and `addresses`.
  `printed_status`: the columns of ``get pods``.
- `probing`: the results of probes. `pleg`: the events between two listings of a pod.
- `eviction`, `eviction_ranking`, `storage_limits`: which pods a node evicts. `node_affinity`: which pods it admits.
  `rejection`: the status message of a pod that it does not admit.
- `container_gc`, `image_gc`, `orphans`: the dead containers, unused images and orphaned pods that a node removes.
- `version`: the version number of these decisions.

`python -m syncpod.lifecycle` answers recorded cases (`cases`), to compare each decision with the kubelet's.
"""
