package console

// ExitCodes ends the help of commands that change something.
const ExitCodes = `Exit codes: 0 done, nothing due, or the rest deferred by the budget; 1 failed;
2 bad usage or configuration, nothing done; 3 another process holds the state.`

// ReadingExitCodes ends the help of commands that request and change nothing.
const ReadingExitCodes = "Exit codes: 0 done; 1 failed; 2 bad usage or configuration, nothing done."

// HelpWidth is the width that every help text fits, in columns.
const HelpWidth = 80
