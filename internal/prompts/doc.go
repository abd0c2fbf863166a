// Package prompts finds, checks and renders prompt files. It hides the folder
// (a git checkout, a ConfigMap mount, any folder), the form of the files, and
// templates.
//
// # What counts
//
// Every file ending in .md or .txt below the folder is a prompt, unless its name
// or that of a folder above it begins with a dot. A file counts once two scans
// saw it unchanged: the same file, time of writing and content. Until then
// it settles, and is neither a prompt nor wrong. [Folder.Scan] is for who scans
// again and again, [Folder.ScanSettled] for a single pass: it scans twice with a
// pause between, except where nothing was written in the last ten minutes.
// [Folder.Lint] takes all files as they are.
//
// A file that breaks a rule makes its own prompt invalid and those that depend on
// it, no other. A rule that is broken is a [Finding]; all of them are found at
// once. A folder that is missing, cannot be read or may be written by anybody is
// an error: no prompts and a folder that is not there are not the same.
//
// # Invariant
//
// A [Prompt] that a scan returns keeps every rule: it can be sent as it is, or
// rendered, whatever is in it. What visitors wrote (paths) reaches a rendered
// prompt only quoted, on one line, and cut to a length; templates end by their
// form, not by a time limit.
//
// # What it does not do
//
// It never writes the folder except in [Folder.Write], knows neither the service
// nor the journal, and does not decide what runs.
package prompts
