"""What crosses Temporal: identities, the workflow's input, signals, updates, and each step's input and result.

- `identity`: ids of workflows and task queues, :class:`PodRef`, :class:`NodeFacts`, and the base of every message.
- `signals`: what comes in (:class:`Pleg`, :class:`DeletePod`, :class:`BackoffExpired`, ...).
- `steps`: what a step is given (:class:`StepInput` and its children) and returns (:class:`StepResult`), and
  :class:`Fault`, the closed vocabulary of its failures. `step_table`: how each step is run.
- `queries`: what a pod's workflow shows: search attributes, events, history.
- `node`: the same for a node as a whole. It is not imported from here.

Every model ignores unknown fields and defaults every field, so that an older worker reads what a newer one sent.
Nothing here is strict: :mod:`syncpod.pod` checks what a person types with ``strict=True`` before it becomes one of
these. On the wire names are Kubernetes' camelCase and times are RFC 3339 strings, because ``tctl`` re-encodes JSON
numbers as doubles and would spoil integers above 2**53.
"""

# The view and the names of steps cross Temporal as well: whoever sends or receives them takes their types from here.
from syncpod.lifecycle.observed import ObservedContainer as ObservedContainer
from syncpod.lifecycle.observed import ObservedPod as ObservedPod
from syncpod.lifecycle.observed import ObservedSandbox as ObservedSandbox
from syncpod.lifecycle.step_name import StepName as StepName
from syncpod.messages.identity import NAME_LIMIT as NAME_LIMIT
from syncpod.messages.identity import POD_WORKFLOW as POD_WORKFLOW
from syncpod.messages.identity import WORKFLOW_ID_LIMIT as WORKFLOW_ID_LIMIT
from syncpod.messages.identity import Message as Message
from syncpod.messages.identity import NodeFacts as NodeFacts
from syncpod.messages.identity import PodRef as PodRef
from syncpod.messages.identity import WirePod as WirePod
from syncpod.messages.identity import node_task_queue as node_task_queue
from syncpod.messages.identity import pod_workflow_id as pod_workflow_id
from syncpod.messages.queries import FORESEE_ADMISSION as FORESEE_ADMISSION
from syncpod.messages.queries import POD_LABELS_LIMIT as POD_LABELS_LIMIT
from syncpod.messages.queries import SEARCH_ATTRIBUTES as SEARCH_ATTRIBUTES
from syncpod.messages.queries import EventRecord as EventRecord
from syncpod.messages.queries import HistoryRecord as HistoryRecord
from syncpod.messages.queries import labels_attribute as labels_attribute
from syncpod.messages.signals import BackoffExpired as BackoffExpired
from syncpod.messages.signals import DeletePod as DeletePod
from syncpod.messages.signals import Evict as Evict
from syncpod.messages.signals import Pleg as Pleg
from syncpod.messages.signals import PlegEvent as PlegEvent
from syncpod.messages.signals import ProbeChanged as ProbeChanged
from syncpod.messages.signals import Restart as Restart
from syncpod.messages.signals import SetCondition as SetCondition
from syncpod.messages.steps import NOT_PULLED as NOT_PULLED
from syncpod.messages.steps import NOT_READY_FAULTS as NOT_READY_FAULTS
from syncpod.messages.steps import STUCK_FAULTS as STUCK_FAULTS
from syncpod.messages.steps import AllocateResources as AllocateResources
from syncpod.messages.steps import Allocation as Allocation
from syncpod.messages.steps import Amounts as Amounts
from syncpod.messages.steps import ContainerKind as ContainerKind
from syncpod.messages.steps import ContainerUpdate as ContainerUpdate
from syncpod.messages.steps import CreateSandbox as CreateSandbox
from syncpod.messages.steps import Fault as Fault
from syncpod.messages.steps import KillContainer as KillContainer
from syncpod.messages.steps import KillPod as KillPod
from syncpod.messages.steps import KillTarget as KillTarget
from syncpod.messages.steps import Outcome as Outcome
from syncpod.messages.steps import PullImage as PullImage
from syncpod.messages.steps import Rejection as Rejection
from syncpod.messages.steps import RemoveContainers as RemoveContainers
from syncpod.messages.steps import RemovePod as RemovePod
from syncpod.messages.steps import ResizePod as ResizePod
from syncpod.messages.steps import StartContainer as StartContainer
from syncpod.messages.steps import StepEvent as StepEvent
from syncpod.messages.steps import StepInput as StepInput
from syncpod.messages.steps import StepResult as StepResult
from syncpod.messages.steps import SyncVolumes as SyncVolumes
