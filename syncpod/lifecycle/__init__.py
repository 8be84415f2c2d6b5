"""The decisions of a pod's life, as the kubelet 1.36 takes them: values in, values out.

Nothing here reads a clock, talks to a runtime or to Temporal, or remembers anything. In the order you meet them:

- `observed`: what the runtime reports, merged into a view that only moves forward.
- `exit`: how an instance ended, the one record of it.
- `compute`: one sync's decision, with a module for each part of it: `sandbox`, `init_containers`, `restart`, `resize`,
  `restart_all`. Its answer is a `PodActions` (`actions`), and `plan` puts that into steps.
- `kill_cause`: who or what decided a kill, for programs.
- `restart_pacing`, `backoff`: when a start may be made. `start_errors`: the meaning of a failed one for the process.
- `termination`: how long an end may take, and who waits for whom.
- `status`: the status that everybody sees, from `phase`, `conditions`, `container_status`, `qos` and `addresses`.
  `printed_status`: what ``get pods`` prints of it.
- `probing`: the results of probes. `pleg`: what happened between two listings of a pod.
- `eviction`, `eviction_ranking`, `storage_limits`: which pods a node evicts. `node_affinity`: which pods it admits.
  `rejection`: the status of those that it does not.
- `container_gc`, `image_gc`, `orphans`: the things that a node removes.
- `version`: the version number of these decisions.

`python -m syncpod.lifecycle` answers recorded cases (`cases`), to compare each decision with the kubelet's.
"""
