// The record of what was applied, and the reason for a new sandbox, as the kubelet 1.37 has them.

package kuberuntime

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation/state"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	runtimeutil "k8s.io/kubernetes/pkg/kubelet/kuberuntime/util"
)

func recordedState(pod *v1.Pod, containers map[string]v1.ResourceRequirements, level *v1.ResourceRequirements) state.State {
	logger := klog.TODO()
	kept := state.NewStateMemory(logger, nil)
	for name, resources := range containers {
		_ = kept.SetContainerResources(logger, pod.UID, name, resources)
	}
	if level != nil {
		_ = kept.SetPodLevelResources(logger, pod.UID, level)
	}
	return kept
}

// recordSandboxReason adds the message of the condition PodReadyToStartContainers.
func recordSandboxReason(answer map[string]any, pod *v1.Pod, status *kubecontainer.PodStatus) {
	_, _, _, reason := runtimeutil.PodSandboxChanged(pod, status)
	answer["sandbox_not_ready"] = reason
}
