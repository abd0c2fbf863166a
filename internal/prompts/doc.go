// Package prompts finds, checks and renders prompt files. It hides the folder
// (a git checkout, a ConfigMap mount, any folder), the format of the files, and
// the templates in them.
//
// # What counts
//
// Every file ending in .md or .txt below the folder is a prompt, unless its name or the name
// of a folder above it begins with a dot. A file counts once two scans saw the same file,
// modification time and content; until then it is neither a prompt nor invalid.
//
// A file that breaks a rule makes its own prompt invalid, and the prompts that depend on it.
// A broken rule is a [Finding]; a scan finds all of them at once. A folder that is missing,
// cannot be read, or can be written by anyone is an error, not a folder without prompts.
//
// # Invariant
//
// A [Prompt] that a scan returns keeps every rule: it can be sent, or rendered, whatever it
// contains. Text from visitors (paths) reaches a rendered prompt only in quotes, on one line,
// and cut to a maximum length. The form of a template ensures that rendering ends.
//
// It writes to the folder only in [Folder.Write], knows neither the service nor the journal,
// and does not decide which prompt is sent.
package prompts
