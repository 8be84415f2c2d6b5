// The record of what was applied, and the reason for a new sandbox, as the kubelet 1.36 has them.

package kuberuntime

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

func recordedState(pod *v1.Pod, containers map[string]v1.ResourceRequirements, level *v1.ResourceRequirements) state.State {
	kept := state.NewStateMemory(nil)
	for name, resources := range containers {
		_ = kept.SetContainerResources(pod.UID, name, resources)
	}
	if level != nil {
		_ = kept.SetPodLevelResources(pod.UID, level)
	}
	return kept
}

// recordSandboxReason adds nothing: 1.36 has no such reason.
func recordSandboxReason(map[string]any, *v1.Pod, *kubecontainer.PodStatus) {}
