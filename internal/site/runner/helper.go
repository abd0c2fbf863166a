package runner

import "errors"

// helperCommand is the first argument of a process that this package starts of its own program.
const helperCommand = "agent-helper"

// isHelper says that this program calls Helper.
var isHelper bool //nolint:gochecknoglobals // only the main function knows, which has begun before anything else

// errNoHelper keeps a program from starting itself over and over.
var errNoHelper = errors.New("the main function of a program that runs agent jobs must call runner.Helper")

// Helper does the work of a process that a Repo or a Jail has started, and returns its exit code; ok is false for any
// other command line. It reads no settings. A main function, and TestMain, must call it with its arguments before it
// does anything else.
func Helper(args []string) (code int, ok bool) {
	if isHelper = true; len(args) == 0 || args[0] != helperCommand {
		return 0, false
	}
	return help(args[1:]), true
}
