// Answers cases of getPhase and of the generators of pod conditions with the functions of this very package.

package kubelet

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

type phaseCase struct {
	Name                  string               `json:"name"`
	Pod                   v1.Pod               `json:"pod"`
	InitContainerStatuses []v1.ContainerStatus `json:"init_container_statuses"`
	ContainerStatuses     []v1.ContainerStatus `json:"container_statuses"`
	Conditions            []v1.PodCondition    `json:"conditions"`
	OldConditions         []v1.PodCondition    `json:"old_conditions"`
	PodIsTerminal         bool                 `json:"pod_is_terminal"`
	PodHasInitialized     bool                 `json:"pod_has_initialized"`
}

// RecordPhase returns the phase and the conditions of one case, as JSON.
func RecordPhase(line []byte) (any, error) {
	var asked phaseCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	old := &v1.PodStatus{Conditions: asked.OldConditions}
	statuses := append(asked.InitContainerStatuses, asked.ContainerStatuses...)
	phase := getPhase(klog.TODO(), &asked.Pod, statuses, asked.PodIsTerminal, asked.PodHasInitialized)
	return map[string]any{
		"phase":            phase,
		"initialized":      conditionJSON(status.GeneratePodInitializedCondition(&asked.Pod, old, statuses, phase)),
		"containers_ready": conditionJSON(status.GenerateContainersReadyCondition(&asked.Pod, old, statuses, phase)),
		"ready":            conditionJSON(status.GeneratePodReadyCondition(&asked.Pod, old, asked.Conditions, statuses, phase)),
	}, nil
}

func conditionJSON(condition v1.PodCondition) map[string]any {
	return map[string]any{"status": condition.Status, "reason": condition.Reason, "message": condition.Message}
}
