package engines

import (
	"context"
	"os"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	t.Setenv("GREETING", "old")
	var c *Command
	c, err := StartCommand(t.TempDir()+"/new", "greeter", []string{"sh", "-c", "echo $GREETING; exec sleep 60"}, []string{"GREETING=hello"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cleanup(t, c)
	until(t, "it has greeted", func() bool {
		text, _ := os.ReadFile(c.Output())
		return string(text) == "hello\n"
	})
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	<-c.Ended()
}

func TestCommandThatEnds(t *testing.T) {
	_, err := StartCommand(t.TempDir(), "short", []string{"sh", "-c", "echo I cannot"}, nil, func(context.Context) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "ended before it answered") || !strings.Contains(err.Error(), "I cannot") {
		t.Errorf("%v, want that it ended and what it said", err)
	}
}
