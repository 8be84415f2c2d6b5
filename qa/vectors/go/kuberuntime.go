// Answers cases of computePodActions and doBackOff with the functions of this very package.

package kuberuntime

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
	testingclock "k8s.io/utils/clock/testing"
)

const recordedRuntime = "recorded"

type recordedSandbox struct {
	ID          string  `json:"id"`
	Attempt     uint32  `json:"attempt"`
	State       string  `json:"state"`
	CreatedAt   int64   `json:"created_at"`
	NetworkMode string  `json:"network_mode"`
	IP          *string `json:"ip"`
}

type recordedContainer struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	State        string `json:"state"`
	ExitCode     int    `json:"exit_code"`
	Reason       string `json:"reason"`
	HashMatches  bool   `json:"hash_matches"`
	CreatedAt    int64  `json:"created_at"`
	StartedAt    int64  `json:"started_at"`
	FinishedAt   int64  `json:"finished_at"`
	RestartCount int    `json:"restart_count"`
	// The sandbox in which it was made. Without the key it was made in the newest one.
	Sandbox *string `json:"sandbox"`
}

type recordedActuated struct {
	Containers map[string]v1.ResourceRequirements `json:"containers"`
	Pod        *v1.ResourceRequirements            `json:"pod"`
}

type actionsCase struct {
	Name   string `json:"name"`
	Pod    v1.Pod `json:"pod"`
	Status struct {
		Sandboxes  []recordedSandbox   `json:"sandboxes"`
		Containers []recordedContainer `json:"containers"`
	} `json:"status"`
	Liveness   map[string]string `json:"liveness"`
	Startup    map[string]string `json:"startup"`
	Actuated   recordedActuated  `json:"actuated"`
	RestartAll bool              `json:"restart_all"`
}

type recordedAmounts struct {
	MemoryLimit   int64 `json:"memory_limit"`
	MemoryRequest int64 `json:"memory_request"`
	CPULimit      int64 `json:"cpu_limit"`
	CPURequest    int64 `json:"cpu_request"`
}

type recordedUpdate struct {
	Name    string          `json:"name"`
	ID      string          `json:"id"`
	Desired recordedAmounts `json:"desired"`
	Current recordedAmounts `json:"current"`
}

// RecordActions returns the actions of one case, as JSON.
func RecordActions(line []byte) (any, error) {
	var asked actionsCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	manager := &kubeGenericRuntimeManager{
		livenessManager:   proberesults.NewManager(),
		startupManager:    proberesults.NewManager(),
		actuatedState:     recordedState(&asked.Pod, asked.Actuated.Containers, asked.Actuated.Pod),
		internalLifecycle: cm.NewFakeInternalContainerLifecycle(),
		recorder:          &record.FakeRecorder{},
	}
	status := asked.podStatus()
	for name, result := range asked.Liveness {
		if found := status.FindContainerStatusByName(name); found != nil {
			manager.livenessManager.Set(found.ID, probeResult(result), &asked.Pod)
		}
	}
	for name, result := range asked.Startup {
		if found := status.FindContainerStatusByName(name); found != nil {
			manager.startupManager.Set(found.ID, probeResult(result), &asked.Pod)
		}
	}
	answer := actionsJSON(manager.computePodActions(context.Background(), &asked.Pod, status, asked.RestartAll), status)
	recordSandboxReason(answer, &asked.Pod, status)
	return answer, nil
}

func (asked *actionsCase) podStatus() *kubecontainer.PodStatus {
	status := &kubecontainer.PodStatus{ID: asked.Pod.UID, Name: asked.Pod.Name, Namespace: asked.Pod.Namespace}
	for _, sandbox := range asked.Status.Sandboxes {
		status.SandboxStatuses = append(status.SandboxStatuses, sandbox.status())
	}
	active := ""
	if len(status.SandboxStatuses) > 0 && status.SandboxStatuses[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
		active = status.SandboxStatuses[0].Id
	}
	for _, container := range asked.Status.Containers {
		found := container.status(&asked.Pod)
		status.ContainerStatuses = append(status.ContainerStatuses, found)
		if active != "" && (container.Sandbox == nil || *container.Sandbox == active) {
			status.ActiveContainerStatuses = append(status.ActiveContainerStatuses, found)
		}
	}
	return status
}

func (sandbox recordedSandbox) status() *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id:        sandbox.ID,
		Metadata:  &runtimeapi.PodSandboxMetadata{Attempt: sandbox.Attempt},
		State:     runtimeapi.PodSandboxState(runtimeapi.PodSandboxState_value[sandbox.State]),
		CreatedAt: sandbox.CreatedAt,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{
			Network: runtimeapi.NamespaceMode(runtimeapi.NamespaceMode_value[sandbox.NetworkMode]),
		}}},
	}
	if sandbox.IP != nil {
		status.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: *sandbox.IP}
	}
	return status
}

func (container recordedContainer) status(pod *v1.Pod) *kubecontainer.Status {
	var hash uint64
	if spec := kubecontainer.GetContainerSpec(pod, container.Name); spec != nil {
		hash = kubecontainer.HashContainer(spec)
	}
	if !container.HashMatches {
		hash++
	}
	return &kubecontainer.Status{
		ID:           kubecontainer.ContainerID{Type: recordedRuntime, ID: container.ID},
		Name:         container.Name,
		State:        kubecontainer.State(container.State),
		ExitCode:     container.ExitCode,
		Reason:       container.Reason,
		Hash:         hash,
		CreatedAt:    nanoseconds(container.CreatedAt),
		StartedAt:    nanoseconds(container.StartedAt),
		FinishedAt:   nanoseconds(container.FinishedAt),
		RestartCount: container.RestartCount,
	}
}

func nanoseconds(since int64) time.Time {
	if since == 0 {
		return time.Time{}
	}
	return time.Unix(0, since)
}

func probeResult(result string) proberesults.Result {
	switch result {
	case "success":
		return proberesults.Success
	case "failure":
		return proberesults.Failure
	}
	return proberesults.Unknown
}

func actionsJSON(actions podActions, status *kubecontainer.PodStatus) map[string]any {
	kills := map[string]any{}
	for id, kill := range actions.ContainersToKill {
		kills[id.ID] = map[string]any{"name": kill.name, "message": kill.message, "reason": string(kill.reason)}
	}
	updates := map[string][]recordedUpdate{}
	for resource, wanted := range actions.ContainersToUpdate {
		for _, update := range wanted {
			updates[string(resource)] = append(updates[string(resource)], recordedUpdate{
				Name: update.container.Name, ID: update.kubeContainerID.ID,
				Desired: amounts(update.desiredContainerResources), Current: amounts(*update.currentContainerResources),
			})
		}
	}
	resets := []any{}
	for _, reset := range actions.ContainersToReset {
		name := ""
		for _, each := range status.ContainerStatuses {
			if each.ID == reset.containerID {
				name = each.Name
			}
		}
		resets = append(resets, map[string]any{"id": reset.containerID.ID, "name": name, "kill": reset.kill})
	}
	return map[string]any{
		"kill_pod":                      actions.KillPod,
		"create_sandbox":                actions.CreateSandbox,
		"sandbox_id":                    actions.SandboxID,
		"attempt":                       actions.Attempt,
		"init_containers_to_start":      indices(actions.InitContainersToStart),
		"containers_to_start":           indices(actions.ContainersToStart),
		"ephemeral_containers_to_start": indices(actions.EphemeralContainersToStart),
		"containers_to_kill":            kills,
		"containers_to_update":          updates,
		"update_pod_resources":          actions.UpdatePodResources,
		"update_pod_level_resources":    actions.UpdatePodLevelResources,
		"containers_to_reset":           resets,
	}
}

func amounts(of resourceRequirements) recordedAmounts {
	return recordedAmounts{of.memoryLimit, of.memoryRequest, of.cpuLimit, of.cpuRequest}
}

func indices(of []int) []int {
	if of == nil {
		return []int{}
	}
	return of
}

type recordedInstance struct {
	State        string `json:"state"`
	FinishedAtMs *int64 `json:"finished_at_ms"`
}

type backOffEvent struct {
	Op        string                  `json:"op"`
	AtMs      int64                   `json:"at_ms"`
	Container string                  `json:"container"`
	Image     string                  `json:"image"`
	Resources v1.ResourceRequirements `json:"resources"`
	Instances []recordedInstance      `json:"instances"`
}

type backOffCase struct {
	Name   string         `json:"name"`
	Pod    metav1.ObjectMeta `json:"pod"`
	Events []backOffEvent `json:"events"`
}

// RecordBackOff returns the results of one case, as JSON.
func RecordBackOff(line []byte) (any, error) {
	var asked backOffCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = asked.Pod.Name, asked.Pod.Namespace, asked.Pod.UID
	manager := &kubeGenericRuntimeManager{recorder: &record.FakeRecorder{}}
	clock := testingclock.NewFakeClock(time.Time{})
	backOff := flowcontrol.NewFakeBackOff(10*time.Second, 300*time.Second, clock)
	results := []any{}
	for _, event := range asked.Events {
		clock.SetTime(time.UnixMilli(event.AtMs))
		if event.Op == "gc" {
			backOff.GC()
			results = append(results, nil)
			continue
		}
		results = append(results, event.result(manager, pod, backOff))
	}
	return results, nil
}

func (event *backOffEvent) result(manager *kubeGenericRuntimeManager, pod *v1.Pod, backOff *flowcontrol.Backoff) any {
	container := &v1.Container{Name: event.Container, Image: event.Image, Resources: event.Resources}
	status := &kubecontainer.PodStatus{}
	var finished *int64
	for _, instance := range event.Instances {
		found := &kubecontainer.Status{Name: event.Container, State: kubecontainer.State(instance.State)}
		if instance.FinishedAtMs != nil {
			found.FinishedAt = time.UnixMilli(*instance.FinishedAtMs)
		}
		if finished == nil && instance.State == "exited" {
			finished = instance.FinishedAtMs
		}
		status.ContainerStatuses = append(status.ContainerStatuses, found)
	}
	held, message, _ := manager.doBackOff(context.Background(), pod, container, status, backOff)
	delay := backOff.Get(GetBackoffKey(pod, container)).Milliseconds()
	result := map[string]any{"allowed": !held, "backoff_ms": delay, "retry_at_ms": nil, "message": message}
	if held {
		result["retry_at_ms"] = *finished + delay
	}
	return result
}
