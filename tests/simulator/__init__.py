"""The whole loop of a pod under a virtual clock: the real workflow, a scripted runtime, a seeded schedule of faults.

::

    faults ──► simulation ──┬─► server    the SDK's own instance of PodWorkflow, activated without a server
      (Case)                ├─► node      steps by their fences, PLEG, back-off queue, deaths of the worker
                            │     └─► attempt, steps    what each step asks of the runtime, and when it lets go
                            ├─► runtime   sandboxes and containers, whose lives are scripted
                            └─► invariants, recorded    told of everything as it happens; raise Violation

Nothing of the workflow is copied or replaced: `workflows`, `syncpod.lifecycle` and `syncpod.pod` run as they are. What
is modelled is what stands on the other side of Temporal: `activities`, the node's agent, a CRI runtime.

What goes wrong is a list of events, so a seed that fails is reduced by leaving events out (`shrink`) and printed as a
test (`report`). ``python -m tests.simulator 17`` explains a seed, ``--seeds 10000`` runs many, ``--month`` has a pod
crash-loop for a month. The usual run of the tests takes 500 seeds, `make nightly` 20,000.
"""
