"""The decision of one sync, case by case, for pods that differ from a base pod in one point.

Holds: Decisions are pure.
"""

from collections.abc import Callable

import pytest

from syncpod.lifecycle.actions import PodActions
from syncpod.lifecycle.kill_cause import KillCause
from syncpod.lifecycle.kubelet_version import KubeletVersion
from tests.lifecycle.situation import (
    Situation,
    act,
    anew,
    does_nothing,
    kill,
    one_debugger,
    three_containers,
    three_init_containers,
    three_sidecars,
)

V1_36 = KubeletVersion.V1_36
Mutate = Callable[[Situation], Situation]
Table = dict[str, tuple[Mutate, PodActions]]

UNKNOWN = 'Container is in "unknown" state, try killing it before restart'
UNKNOWN_INIT = 'Init container is in "unknown" state, try killing it before restart'
ALL_GONE = kill("foo1", UNKNOWN, KillCause.STATE_LOST), kill("foo2", UNKNOWN, KillCause.STATE_LOST)

MAIN_CONTAINERS: Table = {
    "everything is good; do nothing": (
        lambda s: s,
        act(),
    ),
    "a new pod gets its first sandbox and all containers": (
        lambda s: s.without_sandbox().gone(),
        anew(attempt=0, sandbox_id="", containers_to_start=(0, 1, 2)),
    ),
    "containers that the runtime lost start, though their sandbox never went": (
        lambda s: s.gone("foo1", "foo3"),
        act(containers_to_start=(0, 2)),
    ),
    "policy Always: whatever exited starts again": (
        lambda s: s.exited("foo1", code=0).exited("foo2", code=111),
        act(containers_to_start=(0, 1)),
    ),
    "policy OnFailure: only what failed starts again": (
        lambda s: s.policy("OnFailure").exited("foo1", code=0).exited("foo2", code=111),
        act(containers_to_start=(1,)),
    ),
    "policy Never: nothing starts again": (
        lambda s: s.policy("Never").exited("foo1", code=0).exited("foo2", code=111),
        act(),
    ),
    "no policy at all acts like Always": (
        lambda s: s.policy("Always").with_spec(restartPolicy=None).exited("foo2", code=0),
        act(containers_to_start=(1,)),
    ),
    "a created container never started, so it starts even with policy Never": (
        lambda s: s.policy("Never").state("foo2", "created"),
        act(containers_to_start=(1,)),
    ),
    "a container in unknown state is killed before it starts, even with policy Never": (
        lambda s: s.policy("Never").state("foo2", "unknown"),
        act(containers_to_start=(1,), containers_to_kill=(kill("foo2", UNKNOWN, KillCause.STATE_LOST),)),
    ),
    "every container's state unknown: each is killed and started, the pod lives": (
        lambda s: s.state("foo1", "unknown").state("foo2", "unknown").exited("foo3"),
        act(containers_to_start=(0, 1, 2), containers_to_kill=ALL_GONE),
    ),
    "a changed definition restarts just that container": (
        lambda s: s.redefined("foo2"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 definition changed, will be restarted", KillCause.UPDATE),
            ),
        ),
    ),
    "a changed definition restarts the container whatever the policy": (
        lambda s: s.policy("Never").redefined("foo2"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 definition changed, will be restarted", KillCause.UPDATE),
            ),
        ),
    ),
    "a changed definition means nothing to a container that has exited": (
        lambda s: s.policy("Never").exited("foo2").redefined("foo2"),
        act(),
    ),
    "a changed definition is said before a failed probe": (
        lambda s: s.redefined("foo2").live("foo2", "failure"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 definition changed, will be restarted", KillCause.UPDATE),
            ),
        ),
    ),
    "a failed liveness probe restarts the container": (
        lambda s: s.live("foo2", "failure"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 failed liveness probe, will be restarted", KillCause.LIVENESS),
            ),
        ),
    ),
    "a failed startup probe restarts the container": (
        lambda s: s.started("foo2", "failure"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 failed startup probe, will be restarted", KillCause.STARTUP),
            ),
        ),
    ),
    "a liveness failure is said before a startup failure": (
        lambda s: s.live("foo2", "failure").started("foo2", "failure"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 failed liveness probe, will be restarted", KillCause.LIVENESS),
            ),
        ),
    ),
    "probes that are unknown or well do nothing": (
        lambda s: s.live("foo1", "unknown").live("foo2", "success").started("foo3", "unknown"),
        act(),
    ),
    "policy Never: a failed probe kills the container and no more": (
        lambda s: s.policy("Never").live("foo2", "failure"),
        act(containers_to_kill=(kill("foo2", "Container foo2 failed liveness probe", KillCause.LIVENESS),)),
    ),
    "policy Never: when the last containers fail their probes the pod is over": (
        lambda s: s.policy("Never").exited("foo1", "foo3").live("foo2", "failure"),
        act(
            kill_pod=True,
            containers_to_kill=(kill("foo2", "Container foo2 failed liveness probe", KillCause.LIVENESS),),
        ),
    ),
    "a probe's result for a container that has exited counts for nothing": (
        lambda s: s.policy("Never").exited("foo2", code=1).live("foo2", "failure"),
        act(),
    ),
    "policy Never: all containers are done, the pod is over": (
        lambda s: s.policy("Never").exited("foo1", "foo2", "foo3", code=1),
        act(kill_pod=True),
    ),
    "policy OnFailure: all containers succeeded, the pod is over": (
        lambda s: s.policy("OnFailure").exited("foo1", "foo2", "foo3"),
        act(kill_pod=True),
    ),
    "only the newest instance of a container counts": (
        lambda s: s.policy("OnFailure").earlier("foo1", "foo1-old", "exited", 1).earlier("foo2", "foo2-old", "running"),
        act(),
    ),
    "a container that the spec does not name is left alone": (
        lambda s: s.earlier("stranger", "stranger-id", "running").earlier("other", "other-id", "unknown"),
        act(),
    ),
}

OWN_POLICIES: Table = {
    "a container's own Always overrules the pod's Never": (
        lambda s: s.policy("Never").of("foo2", restartPolicy="Always").exited("foo1", "foo2"),
        act(containers_to_start=(1,)),
    ),
    "a container's own Never overrules the pod's Always": (
        lambda s: s.of("foo2", restartPolicy="Never").exited("foo1", "foo2", code=1),
        act(containers_to_start=(0,)),
    ),
    "a container's own OnFailure overrules the pod's Always": (
        lambda s: (
            s.of("foo1", restartPolicy="OnFailure")
            .of("foo2", restartPolicy="OnFailure")
            .exited("foo1")
            .exited("foo2", code=1)
        ),
        act(containers_to_start=(1,)),
    ),
    "a rule restarts what the policy would not": (
        lambda s: s.policy("Never").rule("foo1", "Restart", "In", 42).exited("foo1", "foo2", code=42),
        act(containers_to_start=(0,)),
    ),
    "a rule for other exit codes leaves it to the container's policy": (
        lambda s: s.rule("foo1", "Restart", "In", 42).exited("foo1", code=1),
        act(),
    ),
    "NotIn holds for every code that is not listed": (
        lambda s: (
            s.rule("foo1", "Restart", "NotIn", 0, 2)
            .exited("foo1", code=1)
            .rule("foo2", "Restart", "NotIn", 0, 2)
            .exited("foo2", code=2)
        ),
        act(containers_to_start=(0,)),
    ),
    "In with no codes never holds, NotIn with none always": (
        lambda s: s.rule("foo1", "Restart", "In").exited("foo1").rule("foo2", "Restart", "NotIn").exited("foo2"),
        act(containers_to_start=(1,)),
    ),
    "both actions of a rule mean that the container itself runs again": (
        lambda s: s.rule("foo1", "RestartAllContainers", "In", 7).exited("foo1", code=7),
        act(containers_to_start=(0,)),
    ),
    "rules are not asked when a probe kills: the container's policy is": (
        lambda s: s.rule("foo2", "Restart", "NotIn").live("foo2", "failure"),
        act(containers_to_kill=(kill("foo2", "Container foo2 failed liveness probe", KillCause.LIVENESS),)),
    ),
    "a rule that never holds does not keep a probe's kill from restarting": (
        lambda s: s.policy("Never").rule("foo2", "Restart", "In", policy="OnFailure").started("foo2", "failure"),
        act(
            containers_to_start=(1,),
            containers_to_kill=(
                kill("foo2", "Container foo2 failed startup probe, will be restarted", KillCause.STARTUP),
            ),
        ),
    ),
    "rules are not asked for a state that is unknown": (
        lambda s: s.rule("foo2", "Restart", "In").state("foo2", "unknown"),
        act(containers_to_start=(1,), containers_to_kill=(kill("foo2", UNKNOWN, KillCause.STATE_LOST),)),
    ),
}

DELETION: Table = {
    "a pod that is being deleted keeps what runs": (lambda s: s.deleted(), act()),
    "a pod that is being deleted starts nothing that is not running": (
        lambda s: s.deleted().exited("foo1", code=1).state("foo2", "unknown"),
        act(),
    ),
    "a pod that is being deleted, with nothing running, is killed": (
        lambda s: s.deleted().exited("foo1", code=1).state("foo2", "created").gone("foo3"),
        act(kill_pod=True),
    ),
    "a pod that is being deleted still restarts a container whose definition changed": (
        lambda s: s.deleted().redefined("foo1"),
        act(
            containers_to_start=(0,),
            containers_to_kill=(
                kill("foo1", "Container foo1 definition changed, will be restarted", KillCause.UPDATE),
            ),
        ),
    ),
    "a pod that is being deleted still starts its containers in a new sandbox": (
        lambda s: s.deleted().sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(0, 1, 2)),
    ),
}

SANDBOXES: Table = {
    "the sandbox is not ready: everything anew, with the next attempt": (
        lambda s: s.sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(0, 1, 2)),
    ),
    "two sandboxes are ready: everything anew": (
        lambda s: s.another_sandbox(),
        anew(attempt=2, sandbox_id="newer", containers_to_start=(0, 1, 2)),
    ),
    "an older sandbox that is not ready does no harm": (
        lambda s: s.sandbox(state="SANDBOX_NOTREADY").another_sandbox(),
        act(sandbox_id="newer", attempt=1),
    ),
    "an older ready sandbox does not stand in for the newest": (
        lambda s: s.another_sandbox(state="SANDBOX_NOTREADY"),
        anew(attempt=2, sandbox_id="newer", containers_to_start=(0, 1, 2)),
    ),
    "the network namespace is the node's and should be the pod's: that sandbox is not named": (
        lambda s: s.sandbox(network_mode="NODE"),
        anew(sandbox_id="", containers_to_start=(0, 1, 2)),
    ),
    "the network namespace is the pod's and should be the node's": (
        lambda s: s.with_spec(hostNetwork=True),
        anew(sandbox_id="", containers_to_start=(0, 1, 2)),
    ),
    "the sandbox has lost its address": (
        lambda s: s.sandbox(ip=""),
        anew(containers_to_start=(0, 1, 2)),
    ),
    "no network status at all is no evidence": (lambda s: s.sandbox(ip=None), act()),
    "a pod on the node's network needs no address": (
        lambda s: s.with_spec(hostNetwork=True).sandbox(network_mode="NODE", ip=""),
        act(),
    ),
    "policy Never: a pod that has run gets no second sandbox": (
        lambda s: s.policy("Never").sandbox(state="SANDBOX_NOTREADY"),
        act(kill_pod=True, attempt=1),
    ),
    "policy Never: a pod whose containers were never made gets its second sandbox": (
        lambda s: s.policy("Never").gone().sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(0, 1, 2)),
    ),
    "policy Never: without any sandbox it is a new pod, whatever containers are left": (
        lambda s: s.policy("Never").exited("foo1").without_sandbox(),
        anew(attempt=0, sandbox_id="", containers_to_start=(0, 1, 2)),
    ),
    "policy OnFailure: what has succeeded does not run again in a new sandbox": (
        lambda s: s.policy("OnFailure").exited("foo1").exited("foo2", code=1).sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(1, 2)),
    ),
    "policy OnFailure: a success out of memory is a success here": (
        lambda s: s.policy("OnFailure").exited("foo1", reason="OOMKilled").sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(1, 2)),
    ),
    "policy OnFailure: all have succeeded, so there is no new sandbox": (
        lambda s: s.policy("OnFailure").exited("foo1", "foo2", "foo3").sandbox(state="SANDBOX_NOTREADY"),
        act(kill_pod=True, attempt=1),
    ),
    "policy Always: success is no reason to stay away from a new sandbox": (
        lambda s: s.exited("foo1", "foo2", "foo3").sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(0, 1, 2)),
    ),
    "a container's own OnFailure keeps its success, the others run again": (
        lambda s: s.of("foo1", restartPolicy="OnFailure").exited("foo1", "foo2").sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(1, 2)),
    ),
    "the pod's Never counts for the new sandbox, whatever its containers' own policies": (
        lambda s: s.policy("Never").of("foo1", restartPolicy="Always").sandbox(state="SANDBOX_NOTREADY"),
        act(kill_pod=True, attempt=1),
    ),
    "a new sandbox leaves probes, definitions and ephemeral containers for later": (
        lambda s: s.sandbox(state="SANDBOX_NOTREADY").redefined("foo1").live("foo2", "failure"),
        anew(containers_to_start=(0, 1, 2)),
    ),
}

INIT_CONTAINERS: Table = {
    "all init containers have completed: the main ones start": (
        lambda s: s,
        act(containers_to_start=(0, 1, 2)),
    ),
    "a new pod begins with its first init container alone": (
        lambda s: s.without_sandbox().gone(),
        anew(attempt=0, sandbox_id="", init_containers_to_start=(0,)),
    ),
    "the sandbox is there but nothing in it: the first init container starts": (
        lambda s: s.gone(),
        act(init_containers_to_start=(0,)),
    ),
    "the sandbox died while init containers ran: the first one runs again": (
        lambda s: s.gone("init3").sandbox(state="SANDBOX_NOTREADY"),
        anew(init_containers_to_start=(0,)),
    ),
    "the next init container starts once the one before it has completed": (
        lambda s: s.gone("init2", "init3"),
        act(init_containers_to_start=(1,)),
    ),
    "nothing starts while an init container runs": (
        lambda s: s.gone("init3").running("init2"),
        act(),
    ),
    "a running last init container keeps the main ones waiting": (lambda s: s.running("init3"), act()),
    "what comes before the last known init container is done with, even without a trace": (
        lambda s: s.gone("init1", "init3"),
        act(init_containers_to_start=(2,)),
    ),
    "policy Always: a failed init container runs again": (
        lambda s: s.exited("init3", code=1),
        act(init_containers_to_start=(2,)),
    ),
    "policy OnFailure: a failed init container runs again": (
        lambda s: s.policy("OnFailure").gone("init3").exited("init2", code=1),
        act(init_containers_to_start=(1,)),
    ),
    "policy Never: a failed init container is the end of the pod": (
        lambda s: s.policy("Never").exited("init3", code=1),
        act(kill_pod=True),
    ),
    "an init container that ran out of memory has failed, even with exit code 0": (
        lambda s: s.exited("init3", reason="OOMKilled"),
        act(init_containers_to_start=(2,)),
    ),
    "policy OnFailure: out of memory with exit code 0 is a failure that does not restart": (
        lambda s: s.policy("OnFailure").exited("init3", reason="OOMKilled"),
        act(kill_pod=True),
    ),
    "a rule restarts an init container where the policy would not": (
        lambda s: s.policy("Never").rule("init3", "Restart", "In", 5).exited("init3", code=5),
        act(init_containers_to_start=(2,)),
    ),
    "a failed init container of a pod being deleted is the end of it": (
        lambda s: s.deleted().exited("init3", code=1),
        act(kill_pod=True),
    ),
    "a created init container never started, so it starts": (
        lambda s: s.policy("Never").state("init3", "created"),
        act(init_containers_to_start=(2,)),
    ),
    "an init container in unknown state is killed and starts again": (
        lambda s: s.state("init3", "unknown"),
        act(init_containers_to_start=(2,), containers_to_kill=(kill("init3", UNKNOWN_INIT, KillCause.STATE_LOST),)),
    ),
    "policy Never: an init container in unknown state is the end of the pod": (
        lambda s: s.policy("Never").state("init3", "unknown"),
        act(kill_pod=True),
    ),
    "an init container's own policy counts when its state is unknown, its rules do not": (
        lambda s: s.policy("Never").rule("init3", "Restart", "In", policy="OnFailure").state("init3", "unknown"),
        act(init_containers_to_start=(2,), containers_to_kill=(kill("init3", UNKNOWN_INIT, KillCause.STATE_LOST),)),
    ),
    "an init container in unknown state is killed and started in a pod being deleted too": (
        lambda s: s.deleted().state("init3", "unknown"),
        act(init_containers_to_start=(2,), containers_to_kill=(kill("init3", UNKNOWN_INIT, KillCause.STATE_LOST),)),
    ),
    "a changed definition of a running init container is not looked at": (
        lambda s: s.running("init3").redefined("init3"),
        act(),
    ),
    "once a main container runs, init containers are not asked any more": (
        lambda s: s.running("foo1").exited("init3", code=1).state("init2", "unknown"),
        act(containers_to_start=(1, 2)),
    ),
    "a main container that was only created says as much": (
        lambda s: s.state("foo1", "created").gone("init1", "init2", "init3"),
        act(containers_to_start=(0, 1, 2)),
    ),
    "a main container of this sandbox that has exited says as much": (
        lambda s: s.exited("foo1", "foo2", "foo3").exited("init3", code=1),
        act(containers_to_start=(0, 1, 2)),
    ),
    "1.36: main containers that have exited say nothing: the init containers are asked again": (
        lambda s: s.under(V1_36).exited("foo1", "foo2", "foo3").exited("init3", code=1),
        act(init_containers_to_start=(2,)),
    ),
    "a main container of this sandbox in unknown state says as much": (
        lambda s: s.state("foo1", "unknown").exited("foo2").gone("init1", "init2", "init3"),
        act(
            containers_to_start=(0, 1, 2),
            containers_to_kill=(kill("foo1", UNKNOWN, KillCause.STATE_LOST),),
        ),
    ),
    "1.36: a main container in unknown state says nothing": (
        lambda s: s.under(V1_36).state("foo1", "unknown").gone("init1", "init2", "init3"),
        act(init_containers_to_start=(0,)),
    ),
    "main containers of an earlier sandbox say nothing: the first init container starts": (
        lambda s: s.exited("foo1", "foo2", "foo3").sandbox(state="SANDBOX_NOTREADY").another_sandbox(),
        act(sandbox_id="newer", attempt=1, init_containers_to_start=(0,)),
    ),
    "1.36: init containers of an earlier sandbox are done with": (
        lambda s: s.under(V1_36).exited("foo1", "foo2", "foo3").sandbox(state="SANDBOX_NOTREADY").another_sandbox(),
        act(sandbox_id="newer", attempt=1, containers_to_start=(0, 1, 2)),
    ),
    "policy OnFailure: main containers have succeeded, the new sandbox is not made for init containers": (
        lambda s: s.policy("OnFailure").exited("foo1", "foo2", "foo3").sandbox(state="SANDBOX_NOTREADY"),
        act(kill_pod=True, attempt=1),
    ),
}


def liveness(s: Situation, *names: str) -> Situation:
    for name in names:
        s.of(name, livenessProbe={})
    return s


def startup(s: Situation, *names: str) -> Situation:
    for name in names:
        s.of(name, startupProbe={})
    return s


SIDECARS: Table = {
    "everything runs; do nothing": (lambda s: s, act()),
    "a new pod begins with its first sidecar alone": (
        lambda s: s.without_sandbox().gone(),
        anew(attempt=0, sandbox_id="", init_containers_to_start=(0,)),
    ),
    "a sidecar that runs lets the next one start": (
        lambda s: s.gone("init2", "init3", "foo1", "foo2", "foo3"),
        act(init_containers_to_start=(1,)),
    ),
    "the last sidecar runs: the main containers start": (
        lambda s: s.gone("foo1", "foo2", "foo3"),
        act(containers_to_start=(0, 1, 2)),
    ),
    "a sidecar without a startup result keeps the next one waiting": (
        lambda s: startup(s, "init1").gone("init2", "init3", "foo1", "foo2", "foo3"),
        act(),
    ),
    "a startup result that is unknown keeps it waiting too": (
        lambda s: startup(s, "init1").gone("init2", "init3", "foo1", "foo2", "foo3").started("init1", "unknown"),
        act(),
    ),
    "a sidecar that has started lets the next one start": (
        lambda s: startup(s, "init1").gone("init2", "init3", "foo1", "foo2", "foo3").started("init1"),
        act(init_containers_to_start=(1,)),
    ),
    "the last sidecar has not started: the main containers wait": (
        lambda s: startup(s, "init3").gone("foo1", "foo2", "foo3"),
        act(),
    ),
    "a startup failure restarts the sidecar": (
        lambda s: startup(s, "init1").gone("init2", "init3", "foo1", "foo2", "foo3").started("init1", "failure"),
        act(
            init_containers_to_start=(0,),
            containers_to_kill=(kill("init1", "Init container init1 failed startup probe", KillCause.STARTUP),),
        ),
    ),
    "a startup failure restarts the sidecar of a pod that runs": (
        lambda s: startup(s, "init1").started("init1", "failure"),
        act(
            init_containers_to_start=(0,),
            containers_to_kill=(kill("init1", "Init container init1 failed startup probe", KillCause.STARTUP),),
        ),
    ),
    "a liveness failure restarts the sidecar, with policy Never too": (
        lambda s: liveness(s, "init2").policy("Never").live("init2", "failure"),
        act(
            init_containers_to_start=(1,),
            containers_to_kill=(kill("init2", "Init container init2 failed liveness probe", KillCause.LIVENESS),),
        ),
    ),
    "a liveness failure does not keep the next one from starting": (
        lambda s: liveness(s, "init1").gone("init2", "init3", "foo1", "foo2", "foo3").live("init1", "failure"),
        act(
            init_containers_to_start=(0, 1),
            containers_to_kill=(kill("init1", "Init container init1 failed liveness probe", KillCause.LIVENESS),),
        ),
    ),
    "results of probes that the sidecar does not have count for nothing": (
        lambda s: s.live("init1", "failure").started("init2", "failure"),
        act(),
    ),
    "a changed definition restarts the sidecar": (
        lambda s: s.redefined("init1"),
        act(
            init_containers_to_start=(0,),
            containers_to_kill=(kill("init1", "Init container init1 definition changed", KillCause.UPDATE),),
        ),
    ),
    "a changed definition waits for the startup probe": (
        lambda s: startup(s, "init1").redefined("init1"),
        act(),
    ),
    "sidecars that died are started again, all in one sync and in order": (
        lambda s: s.exited("init1", code=137).exited("init3"),
        act(init_containers_to_start=(0, 2)),
    ),
    "policy Never: a sidecar that died is started again": (
        lambda s: s.policy("Never").exited("init2", code=1),
        act(init_containers_to_start=(1,)),
    ),
    "sidecars that the runtime lost are started again": (
        lambda s: s.gone("init1", "init2"),
        act(init_containers_to_start=(0, 1)),
    ),
    "a sidecar that was lost before any later one began waits for its turn": (
        lambda s: s.gone("init2", "init3", "foo1", "foo2", "foo3").exited("init1"),
        act(init_containers_to_start=(0,)),
    ),
    "a created sidecar is started": (
        lambda s: s.state("init2", "created"),
        act(init_containers_to_start=(1,)),
    ),
    "a sidecar in unknown state is killed and started": (
        lambda s: s.policy("Never").state("init2", "unknown"),
        act(init_containers_to_start=(1,), containers_to_kill=(kill("init2", UNKNOWN_INIT, KillCause.STATE_LOST),)),
    ),
    "a dead last sidecar starts together with main containers that have exited": (
        lambda s: s.exited("init3").exited("foo1", "foo2", "foo3"),
        act(init_containers_to_start=(2,), containers_to_start=(0, 1, 2)),
    ),
    "1.36: a dead last sidecar keeps main containers that have exited from starting": (
        lambda s: s.under(V1_36).exited("init3").exited("foo1", "foo2", "foo3"),
        act(init_containers_to_start=(2,)),
    ),
    "a dead last sidecar does not keep them while one of them runs": (
        lambda s: s.exited("init3").exited("foo1"),
        act(init_containers_to_start=(2,), containers_to_start=(0,)),
    ),
    "main containers are done: dead sidecars stay dead, and the pod is over": (
        lambda s: s.policy("Never").exited("foo1", "foo2", "foo3").exited("init1"),
        act(kill_pod=True),
    ),
    "main containers are done: what was decided for a living sidecar stays decided": (
        lambda s: s.policy("Never").exited("foo1", "foo2", "foo3").redefined("init1"),
        act(
            kill_pod=True,
            containers_to_kill=(kill("init1", "Init container init1 definition changed", KillCause.UPDATE),),
        ),
    ),
    "a plain init container after a sidecar starts once the sidecar has": (
        lambda s: (
            startup(s, "init1")
            .of("init2", restartPolicy=None)
            .gone("init2", "init3", "foo1", "foo2", "foo3")
            .started("init1")
        ),
        act(init_containers_to_start=(1,)),
    ),
    "a sidecar that dies while a later init container runs is started again beside it": (
        lambda s: s.of("init2", restartPolicy=None).gone("init3", "foo1", "foo2", "foo3").exited("init1"),
        act(init_containers_to_start=(0,)),
    ),
    "a plain init container that fails after a sidecar ends the pod, sidecar and all": (
        lambda s: (
            s.policy("Never")
            .of("init2", restartPolicy=None)
            .gone("init3", "foo1", "foo2", "foo3")
            .exited("init2", code=1)
            .exited("init1")
        ),
        act(kill_pod=True),
    ),
    "the sandbox died: the first sidecar starts alone": (
        lambda s: s.sandbox(state="SANDBOX_NOTREADY"),
        anew(init_containers_to_start=(0,)),
    ),
}

EPHEMERAL_CONTAINERS: Table = {
    "an ephemeral container that was never made starts": (lambda s: s, act(ephemeral_containers_to_start=(0,))),
    "an ephemeral container is never started twice": (lambda s: s.exited("debug", code=1), act()),
    "not even one that was only created, or lost sight of": (lambda s: s.state("debug", "created"), act()),
    "it does not wait for the pod to be initialized": (
        lambda s: s.with_spec(initContainers=[{"name": "init", "image": "busybox"}]).gone("foo1", "foo2", "foo3"),
        act(ephemeral_containers_to_start=(0,), init_containers_to_start=(0,)),
    ),
    "a changed definition or a failed probe of one means nothing": (
        lambda s: s.running("debug").redefined("debug").live("debug", "failure"),
        act(),
    ),
    "it waits for a new sandbox": (
        lambda s: s.sandbox(state="SANDBOX_NOTREADY"),
        anew(containers_to_start=(0, 1, 2)),
    ),
    "it does not keep a pod alive, and stays listed when the pod is over": (
        lambda s: s.policy("Never").exited("foo1", "foo2", "foo3"),
        act(kill_pod=True, ephemeral_containers_to_start=(0,)),
    ),
    "it starts in a pod that is being deleted": (lambda s: s.deleted(), act(ephemeral_containers_to_start=(0,))),
}


@pytest.mark.parametrize(("mutate", "expected"), MAIN_CONTAINERS.values(), ids=MAIN_CONTAINERS)
def test_main_containers(mutate: Mutate, expected: PodActions) -> None:
    """Row 81: an unknown container is killed before it is started again; and all else about main containers."""
    assert mutate(three_containers()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), OWN_POLICIES.values(), ids=OWN_POLICIES)
def test_policies_and_rules_of_containers(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(three_containers()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), DELETION.values(), ids=DELETION)
def test_pods_being_deleted(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(three_containers()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), SANDBOXES.values(), ids=SANDBOXES)
def test_sandboxes(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(three_containers()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), INIT_CONTAINERS.values(), ids=INIT_CONTAINERS)
def test_init_containers(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(three_init_containers()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), SIDECARS.values(), ids=SIDECARS)
def test_sidecars(mutate: Mutate, expected: PodActions) -> None:
    assert mutate(three_sidecars()).decide() == expected


@pytest.mark.parametrize(("mutate", "expected"), EPHEMERAL_CONTAINERS.values(), ids=EPHEMERAL_CONTAINERS)
def test_ephemeral_containers(mutate: Mutate, expected: PodActions) -> None:
    """Row 55: started if never made, init containers or not; never again."""
    assert mutate(one_debugger()).decide() == expected


def test_actions_that_change_nothing_are_a_no_op() -> None:
    assert does_nothing(three_containers().decide())
    assert not does_nothing(three_containers().gone("foo1").decide())
    assert not does_nothing(three_containers().applied_to_pod(limits={"cpu": "1"}).decide())
