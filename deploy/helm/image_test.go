package helm

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestImage holds the pods against the image: its program, user and directory.
func TestImage(t *testing.T) {
	dockerfile, err := os.ReadFile("../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods(manifests(t, "deployment")) {
		c := pod.list("spec", "containers")[0]
		user := pod.sub("spec", "securityContext")
		for _, line := range []string{
			fmt.Sprintf("ENTRYPOINT [%q]", words(c.at("startupProbe", "exec", "command"))[0]),
			fmt.Sprintf("USER %v:%v", user.at("runAsUser"), user.at("runAsGroup")),
			fmt.Sprintf("VOLUME [%q]", c.list("volumeMounts")[0].text("mountPath")),
		} {
			if !strings.Contains(string(dockerfile), "\n"+line+"\n") {
				t.Errorf("deploy/docker/Dockerfile lacks %s", line)
			}
		}
	}
}
