"""The steps start_container, start_init_container and start_ephemeral_container, which are one function."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial

from temporalio import activity

from activities.containers.ending import Selection, emit_hook_events, end_containers, kill_target
from activities.containers.lost_instances import end_what_was_lost
from activities.containers.noted_starts import forget_start, note_hook_ended, note_start, noted_start, which_counts
from activities.containers.quick_end import read_once_started
from activities.containers.removal import remove_dead, remove_given_up, remove_unstarted
from activities.containers.unanswered_start import end_noted
from activities.images.presence import FoundImages, container_of, look_at_images, needed_images, report_present
from activities.node.hooks import carry_out_hook, hook_target
from activities.node.metrics import count_failed_start, count_start
from activities.pipelining import take_ahead
from activities.preparing import Configured, Prepared, configure
from activities.step_attempt import Interrupted, PodFault, Polls, StepAttempt, warning
from syncpod.cri.errors import CriError, DeadlineExceeded, ImageAbsent, NameReserved, NotFound, TransportFault
from syncpod.cri.port import ImageStatus
from syncpod.handlers.hook import HookFailed, failure_message
from syncpod.kernel.os_errors import where_and_why
from syncpod.messages import ObservedContainer, ObservedPod
from syncpod.messages.steps import Fault, Outcome, StartContainer, StepResult
from syncpod.node.announcements import Announced
from syncpod.node.log_links import links_directory, make_log_link
from syncpod.node.pod_threads import DiskWork
from syncpod.node.pod_volumes import MountFailure
from syncpod.node.start_marks import StartMark, as_ended
from syncpod.pod import EphemeralContainer
from syncpod.translation import ContainerConfigError, SandboxConfigError
from syncpod.translation.container_config import container_path
from syncpod.translation.context import ordered_pod_ips
from syncpod.translation.names import CONTAINER_NAME_LABEL, INCARNATION_ANNOTATION, NODE_LABEL, POD_UID_LABEL
from syncpod.translation.paths import UnsafeName, container_log_file, log_directory_of
from syncpod.translation.pod_fields import container_message


async def start_container(attempt: StepAttempt, request: StartContainer) -> StepResult:
    """Create and start one container, or adopt an existing instance of that name and restart.

    The step looks for the instance of this restart and life, and looks again after each inconclusive answer:

    - It runs, or has exited after its start: it is adopted. If it has exited, it is never started again.
    - This try created it, perhaps before its turn (`activities.pipelining`): it is started.
    - The runtime refused its start: the fault is raised again. It is an exit like any other, with code 128.
    - Another try created it, or its start was cut off before anything ran: while a start of it is under way, the step
      waits; otherwise it is removed, and created again with the same number. (A runtime that died between create and
      start cannot start such an instance. The kubelet counts a restart here; syncpod counts none, as nothing ran.) If
      the runtime died within the start, the instance may have run (`may_have_begun` in `containers/noted_starts.py`):
      it is removed, and its mark stays.
    - Only a later instance is listed: the workflow has no record of that instance, since the workflow was reset or its
      database restored. The later instance is treated as above. An instance with the earlier number might run beside
      it.
    - None is listed, but there is a start mark of this restart or a later one: the instance ran and was removed since.
      It is adopted as ended, and never created again (difference: the kubelet would create it again).
    - None is listed, but the name is reserved: another call is still creating the instance. The step waits until the
      instance is listed or the name is free.
    - There is none: it is created, or the outcome is IMAGE_ABSENT, and the workflow pulls the image first.

    During the start, dead instances named in `prune` are removed with their logs; a failed removal is left for later.
    After the start of an init container that is not a sidecar, the step waits a moment, since most of them end at once.
    Then the result has the exit too, and the next container follows without another signal and decision.

    A cancelled step stops before its next call that creates something, or while it only waits. It removes a container
    that it created but did not start. Mirrors kuberuntime_container.go, v1.36, startContainer, with its events and
    messages. Raises PodFault: CreateContainerConfigError, CreateContainerError, RunContainerError, and image faults.
    """
    start = _Start(attempt, request)
    try:
        return await start.run()
    except PodFault as fault:
        count_failed_start(request.kind, fault.fault, begun=start.begun)
        raise


class _Start:
    """One try of a start, with its requests so far."""

    def __init__(self, attempt: StepAttempt, request: StartContainer) -> None:
        self.attempt = attempt
        self.request = request
        self.cri = attempt.node.cri
        self.container = container_of(request.pod, request.container)
        self.image: ImageStatus | None = None
        """The status of the container's own image; None until it has been read."""
        self._has_emitted_found = False
        self.begun = False
        self.sent = False
        """Whether a CreateContainer of this attempt got no answer: an instance that appears may then be this
        attempt's."""

    async def run(self) -> StepResult:
        prepared = await take_ahead(self.attempt)
        images = asyncio.create_task(self._images(prepared))
        try:
            with self._unprobed():
                done = await self._go_on(prepared) if prepared is not None else None
                return done if done is not None else await self._until_started(images, prepared)
        finally:
            images.cancel()
            await asyncio.gather(images, return_exceptions=True)

    async def _images(self, prepared: Prepared | None) -> FoundImages | None:
        if prepared is not None:
            return prepared.images
        return await look_at_images(self.attempt, self.request.pod, self.container, pulled=self.request.pulled)

    @contextlib.contextmanager
    def _unprobed(self) -> Iterator[None]:
        """Keep the agent from probing the container until its postStart hook, if it has one, has ended.

        The kubelet does not probe it either: the pod's status shows the container as running only after the hook
        (prober/worker.go, v1.36, doProbe).
        """
        if not self._has_post_start:
            yield
            return
        unprobed, this = self.attempt.node.unprobed, (self.request.ref.uid, self.container.name)
        unprobed.add(this)
        try:
            yield
        finally:
            unprobed.discard(this)

    @property
    def _has_post_start(self) -> bool:
        return self.container.lifecycle is not None and self.container.lifecycle.post_start is not None

    async def _go_on(self, prepared: Prepared) -> StepResult | None:
        """Start the container that was made before its turn, if there is one and it can be used; else return None."""
        asked = prepared.configured
        if asked is None or asked.created is None:
            return None
        self._emit_found(prepared.images)
        self._count()
        if not asked.created:
            self.sent = True
            return None
        view = await self.attempt.look(lambda view: self._instance(view) is None)
        if asked.pod_ips != self._pod_ips(view):
            await remove_unstarted(self.attempt, asked.created)
            return None
        await self._check_stop_signal(asked.created)
        return await self._start(asked.created, view)

    async def _until_started(self, images: asyncio.Task[FoundImages | None], first: Prepared | None) -> StepResult:
        polls = Polls(self.attempt)
        which = f"{self.container.name}, restart {self.request.restart}"
        while True:
            prepared, first = first, None  # a preparation is only recent enough for the first look
            self.attempt.doing = f"looks for {which}"
            view = await self.attempt.look(lambda view: not self.sent and self._instance(view) is None)
            instance = self._instance(view)
            if instance is not None and instance.was_refused:
                await end_what_was_lost(self.attempt, [instance.id])
                raise self._failed(Fault.RUN_CONTAINER_ERROR, instance.message)
            if instance is not None and instance.was_given_up:
                await remove_given_up(self.attempt, instance.id)
                continue
            if instance is not None and instance.has_run:
                return await self._adopt(instance, view)
            if instance is not None and self.sent and instance.state == "created" and self._is_meant(instance):
                await self._check_stop_signal(instance.id)
                return await self._start(instance.id, view)
            if instance is not None:
                self.attempt.doing = f"clears away {which}, which was never started"
                if not await remove_unstarted(self.attempt, instance.id, exited=instance.state == "exited"):
                    self.attempt.doing = f"waits for a start of {which} that is under way"
                await polls.pause()
                continue
            if prepared is not None:
                mark = which_counts(prepared.mark, self.request)
            else:
                mark = await noted_start(self.attempt, self.request)
            if mark is not None:
                view = await self.attempt.read()
                if self._instance(view) is None:
                    return self._adopt_gone(mark, view)
                continue
            present = await images
            if present is None:
                return self._without_image()
            try:
                container_id = await self._create(present, view, prepared.configured if prepared is not None else None)
            except ImageAbsent:
                return self._without_image()
            except NameReserved as reserved:
                await self._refuse_stranger(reserved)
                self.attempt.doing = f"waits for the runtime to finish {which}: its name is reserved"
                await polls.pause()
            except DeadlineExceeded:
                # The container may still appear. Then it is the container of this attempt, which may start it.
                self.sent = True
                await polls.pause()
            else:
                return await self._start(container_id, view)

    def _without_image(self) -> StepResult:
        """Return IMAGE_ABSENT, so that the workflow pulls the image.

        If a pull has just succeeded, the next pull is made to fail, so that its back-off slows this loop.
        """
        if self.request.pulled:
            for needed in needed_images(self.request.pod, self.container):
                self.attempt.node.pulls.miss(self.request.ref.uid, self.container.name, needed.image)
        return StepResult(outcome=Outcome.IMAGE_ABSENT)

    def _instance(self, view: ObservedPod) -> ObservedContainer | None:
        """Return this life's newest instance with this restart number or a later one; None if there is none."""
        ours = (
            each
            for each in view.containers
            if each.name == self.container.name and each.incarnation == self.request.ref.incarnation
        )
        return next((each for each in ours if self._is_meant(each) or self._overtakes(each)), None)

    def _is_meant(self, instance: ObservedContainer) -> bool:
        return instance.restart_count == self.request.restart

    def _overtakes(self, instance: ObservedContainer) -> bool:
        """Return whether an instance has a later restart number; an init container also needs the same sandbox."""
        in_its_place = self.request.kind != "init_container" or instance.sandbox_id == self.request.sandbox_id
        return instance.restart_count > self.request.restart and in_its_place

    async def _adopt(self, instance: ObservedContainer, view: ObservedPod) -> StepResult:
        """Adopt an instance that an earlier attempt started: emit its events and run its postStart hook, both again."""
        self.attempt.emit("Created", "Container created", self.container.name)
        self.attempt.emit("Started", "Container started", self.container.name)
        await self._link_log(instance.id)
        await self._end_if_unknown(instance)
        if instance.state == "running":
            await self._post_start(instance.id, view)
        return StepResult(outcome=Outcome.ADOPTED, id=instance.id)

    async def _end_if_unknown(self, instance: ObservedContainer) -> None:
        """If the runtime gave up the start although the process may run, end that process and emit a warning."""
        if instance.exit is not None and not instance.exit.is_certain:
            await end_what_was_lost(self.attempt, [instance.id])
            self.attempt.events.append(warning(instance.reason, instance.message, self.container.name))

    def _adopt_gone(self, mark: StartMark, view: ObservedPod) -> StepResult:
        """Adopt an instance that has run and is gone; the status shows it as ended."""
        name, exits = self.container.name, self.attempt.node.reader.exits
        seen = exits.of(mark.id) if exits is not None else None
        gone = as_ended(mark, self.container, seen)
        if not any(event.reason == "Created" for event in self.attempt.events):  # this try may have created it
            self.attempt.emit("Created", "Container created", name)
        self.attempt.emit("Started", "Container started", name)
        if seen is None:
            text = f"Container {name} is no longer listed by the runtime: its exit was not observed"
            self.attempt.events.append(warning(gone.reason, text, name))
        status = view.model_copy(update={"containers": (gone, *view.containers)}).ordered()
        return StepResult(outcome=Outcome.ADOPTED, id=gone.id, status=status)

    # --- create -------------------------------------------------------------------------------------------------------

    async def _create(self, images: FoundImages, view: ObservedPod, prepared: Configured | None) -> str:
        """Create the container. Raises PodFault; passes on NameReserved, ImageAbsent and transport faults."""
        self._emit_found(images)
        asked = await self._configuration(images, view, prepared)
        self.attempt.doing = f"creates {self.container.name}, restart {self.request.restart}"
        self.attempt.checkpoint()
        self._count()
        try:
            container_id = await self.cri.create_container(self.request.sandbox_id, asked.container, asked.sandbox)
            self.attempt.node.reader.require_own("create_container", container_id, self.request.ref.uid)
        except (NameReserved, ImageAbsent, TransportFault):
            raise
        except CriError as error:
            path = container_path(self.request.pod, self.container.name, self.request.kind)
            said = container_message(error.message, self.container, path)
            raise self._failed(Fault.CREATE_CONTAINER_ERROR, said) from error
        await self._check_stop_signal(container_id)
        return container_id

    def _count(self) -> None:
        """Count the start, once for this try."""
        if not self.begun:
            self.begun = True
            count_start(self.request.kind)

    def _emit_found(self, images: FoundImages) -> None:
        """Emit the events of images that were present, once per try, even if the configuration then fails."""
        self.image = images.own
        if self._has_emitted_found or self.request.pulled:
            return
        self._has_emitted_found = True
        for needed in needed_images(self.request.pod, self.container):
            if needed.policy != "Always":
                report_present(self.attempt, needed, None if needed.volume else self.image)

    async def _check_stop_signal(self, container_id: str) -> None:
        """Remove the container again if the runtime has silently dropped its stop signal. Raises PodFault.

        A runtime that supports stop signals reports a container's stop signal (CRI-O only in a verbose status). There
        is no earlier way to learn whether a runtime supports them.
        """
        lifecycle = self.container.lifecycle
        if lifecycle is None or lifecycle.stop_signal is None:
            return
        if (await self.cri.container_status(container_id, verbose=True)).container.stop_signal:
            return
        await remove_unstarted(self.attempt, container_id)
        runtime = await self.cri.version()
        path = container_path(self.request.pod, self.container.name, self.request.kind)
        message = (
            f"{path}.lifecycle.stopSignal: {runtime.name} {runtime.version} has no stop signals: leave the field out"
        )
        raise self._failed(Fault.CREATE_CONTAINER_CONFIG_ERROR, message)

    async def _configuration(self, images: FoundImages, view: ObservedPod, prepared: Configured | None) -> Configured:
        """Return the request to CRI: the prepared one if the pod's addresses are the same, else a new one.

        For a new request, the container's files are made first. Raises PodFault.
        """
        pod_ips = self._pod_ips(view)
        if prepared is not None and prepared.pod_ips == pod_ips:
            return prepared
        try:
            return await configure(self.attempt, self.request, images, pod_ips, self._target_id(view))
        except (ContainerConfigError, SandboxConfigError, MountFailure, UnsafeName, OSError) as error:
            raise self._failed(Fault.CREATE_CONTAINER_CONFIG_ERROR, where_and_why(error)) from error

    def _pod_ips(self, view: ObservedPod) -> tuple[str, ...]:
        home = next((each for each in view.sandboxes if each.id == self.request.sandbox_id), None)
        addresses = self.attempt.node.context.host.addresses
        return ordered_pod_ips(home.ip, home.additional_ips, addresses) if home else ()

    def _target_id(self, view: ObservedPod) -> str:
        """Return the id of the container whose processes an ephemeral container is to see; "" if there is none."""
        if not isinstance(self.container, EphemeralContainer) or not self.container.target_container_name:
            return ""
        target = view.newest(self.container.target_container_name)
        return target.id if target is not None else ""

    async def _refuse_stranger(self, reserved: NameReserved) -> None:
        """Raise PodFault if a container of another node or life has the name. That container is left alone."""
        identity = {POD_UID_LABEL: self.request.ref.uid, CONTAINER_NAME_LABEL: self.container.name}
        if reserved.holder_id:
            holders = await self.cri.list_containers(id=reserved.holder_id)
        else:
            listed = await self.cri.list_containers(labels=identity)
            holders = tuple(each for each in listed if each.attempt == self.request.restart)
        for holder in holders:
            owner = holder.labels.get(NODE_LABEL)
            if owner != self.attempt.node.context.name:
                whose = f"belongs to node {owner}" if owner else "is not managed by syncpod"
            elif holder.annotations.get(INCARNATION_ANNOTATION, "") != self.request.ref.incarnation:
                whose = "is of an earlier pod with the same UID"
            else:
                continue
            message = f"its name is taken by container {holder.id}, which {whose}"
            raise self._failed(Fault.CREATE_CONTAINER_ERROR, message) from reserved

    # --- start --------------------------------------------------------------------------------------------------------

    async def _start(self, container_id: str, view: ObservedPod) -> StepResult:
        with self.attempt.node.announcements.of(container_id) as announced:
            return await self._start_announced(container_id, view, announced)

    async def _start_announced(self, container_id: str, view: ObservedPod, announced: Announced) -> StepResult:
        """Start the container that this try created, and remove older dead instances meanwhile."""
        name = self.container.name
        if self.attempt.interrupted:
            await remove_unstarted(self.attempt, container_id)
            raise Interrupted
        self.attempt.emit("Created", "Container created", name)
        self.attempt.doing = f"starts {name}, restart {self.request.restart}"
        await self._note_start(container_id)
        prune = asyncio.create_task(self._prune(view))
        if self.request.kind == "container" and not self._has_post_start:
            self.attempt.mark_waiting()  # the kubelet creates the next container even if this one does not start
        try:
            ended = await self._call_start(container_id)
        finally:
            await prune
        if ended is not None and ended.outcome != Outcome.DONE:
            return ended
        self.attempt.emit("Started", "Container started", name)
        linking = asyncio.create_task(self._link_log(container_id))
        try:
            if ended is not None:
                return ended
            await self._post_start(container_id, view)
            status = await read_once_started(
                self.attempt, self.request, container_id, announced, is_to_end=self._is_to_end
            )
            return StepResult(id=container_id, status=status)
        finally:
            await linking

    async def _call_start(self, container_id: str) -> StepResult | None:
        """Send StartContainer. Return None if the container runs, or a result if the call failed but the container ran.

        Raises PodFault and TransportFault.
        """
        async with self._end_noted(container_id):
            try:
                await self.cri.start_container(container_id)
            except TransportFault:
                raise
            except CriError as error:
                return await self._ended_despite_error(container_id, error)
        return None

    def _end_noted(self, container_id: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Return the context that notes an end during the start, if it matters whether the container ran to its end."""
        is_to_end = self._is_to_end or self.request.pod.spec.restart_policy != "Always"
        return end_noted(self.attempt, container_id) if is_to_end else contextlib.nullcontext()

    @property
    def _is_to_end(self) -> bool:
        """Whether the container is an init container and no sidecar."""
        return self.request.kind == "init_container" and self.container.restart_policy != "Always"

    async def _note_start(self, container_id: str) -> None:
        """Write the start mark; if that fails, remove the container and raise PodFault.

        An instance that ran without a mark might run twice.
        """
        try:
            await note_start(self.attempt, self.request, container_id, hook_pending=self._has_post_start)
        except OSError as error:
            await remove_unstarted(self.attempt, container_id)
            raise self._failed(
                Fault.RUN_CONTAINER_ERROR, f"its start cannot be noted on the node: {where_and_why(error)}"
            ) from error

    async def _link_log(self, container_id: str) -> None:
        """Make the link by which log agents find the container's log. The container runs even if that fails."""
        node = self.attempt.node
        file = container_log_file(self.container.name, self.request.restart)
        log = log_directory_of(self.request.pod, node.context) / file
        try:
            linking = partial(make_log_link, node.context.log_dir, log, self.container.name, container_id)
            await self.attempt.on_disk(DiskWork.LOGS, linking)
        except OSError as error:
            why = f"{error.strerror}: {links_directory(node.context.log_dir)}"
            if why != node.no_log_links:
                activity.logger.warning("containers' logs have no links for log agents: %s", why)
            node.no_log_links = why

    async def _post_start(self, container_id: str, view: ObservedPod) -> None:
        """Run the container's postStart hook, if it has one; if the hook fails, end the container.

        The hook runs at least once: it runs again if an earlier try was cut off. Raises PodFault PostStartHookError,
        and Interrupted, which leaves the container running for the step that ends it.
        """
        container = self.container
        if container.lifecycle is None or container.lifecycle.post_start is None:
            return
        self.attempt.doing = f"carries out the postStart hook of {container.name}"
        ports = {port.name: port.container_port for port in container.ports if port.name}
        target = hook_target(self.attempt.node.context, view, container_id, ports)
        try:
            fallback = await self.attempt.interruptible(
                carry_out_hook(container.lifecycle.post_start, target, self.cri)
            )
        except HookFailed as failed:
            activity.logger.warning("the postStart hook of container %s failed: %s", container_id, failed)
            await self._end(container_id)
            failed_hook = warning("FailedPostStartHook", "PostStartHook failed", container.name)
            ref = self.request.ref
            pod = f"{ref.name}_{ref.namespace}({ref.uid})"
            message = failure_message(container.lifecycle.post_start, container.name, pod, failed)
            raise PodFault(Fault.POST_START_HOOK_ERROR, message, failed_hook) from failed
        if fallback:
            self.attempt.events.append(warning("LifecycleHTTPFallback", fallback, container.name))
        try:
            await note_hook_ended(self.attempt, self.request, container_id)
        except OSError as error:  # the note only decides how soon the next worker begins to probe
            activity.logger.warning("the end of the postStart hook of %s cannot be noted: %s", container_id, error)

    async def _end(self, container_id: str) -> None:
        """End the container with its grace and its preStop hook."""
        name, pod = self.container.name, self.request.pod
        grace = pod.spec.termination_grace_period_seconds
        grace_seconds = int(self.attempt.waited_seconds) + (30 if grace is None else grace)
        target = kill_target(container_id, name, pod, grace_seconds=grace_seconds, with_hook=True)
        self.attempt.emit_now("Killing", "FailedPostStartHook", name)

        async def alive(view: ObservedPod) -> Selection:
            return [(each, target) for each in view.containers if each.id == container_id and each.state != "exited"]

        await end_containers(self.attempt, alive)
        emit_hook_events(self.attempt, (target,))

    async def _ended_despite_error(self, container_id: str, error: CriError) -> StepResult | None:
        """Return a result if the container ran although its start failed, None if it still runs; else raise PodFault.

        A start that the runtime refused is an exit: the dead instance stays, and the next instance gets another number.
        An instance whose start was only cut off is removed, so that the next try can use its number. An instance that
        may have run keeps its mark, and is adopted as ended: its number is used up.
        """
        view = await self.attempt.read()
        instance = next((each for each in view.containers if each.id == container_id), None)
        if instance is not None and instance.has_run and not instance.was_refused:
            await self._end_if_unknown(instance)
            return None if instance.state == "running" else StepResult(id=container_id)
        if instance is not None and instance.was_given_up:
            await remove_given_up(self.attempt, container_id)
        elif instance is not None and not instance.has_run:
            await remove_unstarted(self.attempt, container_id, exited=instance.state == "exited")
        elif instance is not None or isinstance(error, NotFound):
            await forget_start(self.attempt, container_id)
        mark = await noted_start(self.attempt, self.request)
        if mark is not None and mark.id == container_id:
            view = await self.attempt.read()
            if self._instance(view) is None:
                return self._adopt_gone(mark, view)
        raise self._failed(Fault.RUN_CONTAINER_ERROR, error.message) from error

    async def _prune(self, view: ObservedPod) -> None:
        """Remove older dead instances of this container, with their logs (pod_container_deletor.go, v1.36).

        Runs concurrently with the start. The newest `dead_kept` dead instances stay, and so do all instances that the
        request does not list.
        """
        dead = [each for each in view.containers if each.name == self.container.name and each.state == "exited"]
        spare = [each for each in dead[self.attempt.node.dead_kept :] if each.id in self.request.prune]
        removals = (remove_dead(self.attempt, each) for each in spare)
        for outcome in await asyncio.gather(*removals, return_exceptions=True):
            if isinstance(outcome, CriError | OSError):
                activity.logger.warning("a dead instance of %s stays for now: %s", self.container.name, outcome)
            elif outcome is not None:
                raise outcome

    def _failed(self, fault: Fault, message: str) -> PodFault:
        return PodFault(fault, message, warning("Failed", f"Error: {message}", self.container.name))
