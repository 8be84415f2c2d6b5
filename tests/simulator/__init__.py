"""The whole loop of a pod under a virtual clock: the real workflow and the real steps, over a scripted runtime.

::

    faults ──► simulation ──┬─► server    the SDK's own instance of PodWorkflow, activated without a server
      (Case)                ├─► node      a worker with the real `activities`, its deaths; a model of PLEG and queue
                            │     ├─► loop     the worker's event loop, whose time is the simulation's
                            │     └─► cri      the port to the runtime: calls that take their time, and faults
                            ├─► runtime   sandboxes and containers, whose lives are scripted
                            └─► invariants, recorded    told of everything as it happens; raise Violation

Nothing of the workflow or of a step is copied or replaced: `workflows`, `activities` and all that they import run as
they are, with files in memory that outlive a worker. Modelled are a Temporal server, the node's agent and a CRI
runtime. A defect of a step (an error that it does not foresee) fails the simulation too.

What goes wrong is a list of events, so a seed that fails is reduced by leaving events out (`shrink`) and printed as a
test (`report`). ``python -m tests.simulator 17`` explains a seed, ``--seeds 10000`` runs many, ``--month`` has a pod
crash-loop for a month. The usual run of the tests takes 125 seeds, `make nightly` 20,000.
"""
