"""Messages that cross Temporal: identities, a workflow's input, signals, updates, and each step's input and result.

- `identity`: ids of workflows and task queues, :class:`PodRef`, :class:`NodeFacts`, and the base of every message.
- `signals`: the messages to a pod (:class:`Pleg`, :class:`DeletePod`, :class:`BackoffExpired`, ...).
- `steps`: a step's input (:class:`StepInput` and its children) and result (:class:`StepResult`), and :class:`Fault`,
  the closed vocabulary of its failures. `step_table`: how each step is run.
- `queries`: the data that a pod's workflow shows: search attributes, events, history.
- `node`: the same for a node as a whole.

Import each name from its module.

Every model ignores unknown fields and defaults every field, so that an older worker reads the messages of a newer one.
No model here is strict by itself: :mod:`syncpod.pod` checks a manifest with ``strict=True`` before a message carries
it, and a workflow parses people's commands with ``extra="forbid"``. On the wire names are Kubernetes' camelCase and
times are RFC 3339 strings, because ``tctl`` re-encodes JSON numbers as doubles and would spoil integers above 2**53.
"""

# A step decides nothing, so an import contract keeps `activities` from importing `syncpod.lifecycle`. The activities
# import these names from here.
from syncpod.lifecycle.actions import StepName as StepName
from syncpod.lifecycle.kill_cause import PRE_STOP_FAILED as PRE_STOP_FAILED
from syncpod.lifecycle.kill_cause import KillCause as KillCause
from syncpod.lifecycle.observed import ObservedContainer as ObservedContainer
from syncpod.lifecycle.observed import ObservedPod as ObservedPod
from syncpod.lifecycle.observed import ObservedSandbox as ObservedSandbox
