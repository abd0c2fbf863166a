// Package prompts finds, checks and renders prompt files. It hides the folder
// (a git checkout, a ConfigMap mount, any folder), the format of the files, and
// the templates in them.
//
// # What counts
//
// Every file ending in .md or .txt below the folder is a prompt, unless its name
// or the name of a folder above it begins with a dot. A file counts once two scans
// saw it unchanged: the same file, modification time and content. Until then it is
// neither a prompt nor invalid. A caller that scans again and again uses
// [Folder.Scan]. [Folder.ScanOnce] is for a single pass: it scans twice with a
// pause in between, except where nothing was written in the last ten minutes.
// [Folder.Lint] takes all files as they are.
//
// A file that breaks a rule makes its own prompt invalid, and the prompts that
// depend on it, but no other. A broken rule is a [Finding]; a scan finds all of
// them at once. It is an error if the folder is missing, cannot be read, or can be
// written by anyone: a missing folder is not the same as a folder without prompts.
//
// # Invariant
//
// A [Prompt] that a scan returns keeps every rule: it can be sent as it is, or
// rendered, whatever is in it. Text from visitors (paths) reaches a rendered prompt
// only in quotes, on one line, and cut to a maximum length. The form of a template
// makes sure that rendering ends; there is no time limit.
//
// # What it does not do
//
// It writes to the folder only in [Folder.Write], knows neither the service nor
// the journal, and does not decide which prompt is sent.
package prompts
