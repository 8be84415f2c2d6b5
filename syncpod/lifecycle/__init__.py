"""The decisions of a pod's life, as the kubelet 1.36 takes them: values in, values out.

Nothing here reads a clock, talks to a runtime or to Temporal, or remembers anything. In the order you meet them:

- `observed`: what the runtime reports, merged into a view that only moves forward; `pleg` tells two listings apart.
- `exit`: how an instance ended, the one record of it.
- `compute`: one sync's decision, with a module for each part of it: `sandbox`, `init_containers`, `restart`, `resize`,
  `restart_all`. Its answer is a `PodActions` (`actions`), and `plan` puts that into steps.
- `backoff`: when a start may be made. `termination`: how long an end may take, and who waits for whom.
- `status`: what the world is told, from `phase`, `conditions`, `container_status`, `qos` and `addresses`.
- `version`: the number that says which decisions these are.

`python -m syncpod.lifecycle` answers recorded cases (`cases`), so that each decision can be held against the kubelet's.
"""
