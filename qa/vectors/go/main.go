// Reads a case a line, and writes a line with the case and the kubelet's answer. The argument is the kind of the cases.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
)

const longestLine = 1 << 20

type kind struct {
	key    string
	answer func([]byte) (any, error)
}

var kinds = map[string]kind{
	"actions": {"actions", kuberuntime.RecordActions},
	"phase":   {"result", kubelet.RecordPhase},
	"backoff": {"results", kuberuntime.RecordBackOff},
}

func main() {
	asked, known := kind{}, false
	if len(os.Args) == 2 {
		asked, known = kinds[os.Args[1]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: recorder actions|phase|backoff < cases")
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard())
	lines, written := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, longestLine)
	written.SetEscapeHTML(false)
	for lines.Scan() {
		answer, err := asked.answer(lines.Bytes())
		if err == nil {
			err = written.Encode(map[string]any{"case": json.RawMessage(lines.Bytes()), asked.key: answer})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
