// Package input reads what a command is given: arguments, flags, dates, projects and formats.
package input

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError is a mistake in the command line.
type UsageError struct{ error }

// Usage makes an error a mistake in the command line.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a mistake in the command line.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (u UsageError) Unwrap() error { return u.error }

// onceFlag is the value of a flag that can have one value.
type onceFlag struct {
	value *string
	times int
	why   string // why it has one, and the remedy
}

// Once is a flag that can be given once, which CheckFlags checks; why that is so, and the remedy, is part of the error.
func Once(value *string, why string) pflag.Value { return &onceFlag{value, 0, why} }

// ArchiveFlag names the archive that a command reads.
func ArchiveFlag(f *pflag.FlagSet, archive *string, usage string) {
	f.Var(Once(archive, "an answer is about one archive: run the command for each, or load both into a database"),
		"archive", usage)
}

func (f *onceFlag) Set(value string) error {
	if f.times++; f.times == 1 {
		*f.value = value
	}
	return nil // completion parses the flags twice
}

func (f *onceFlag) String() string { return *f.value }
func (f *onceFlag) Type() string   { return "string" }

// CheckFlags refuses flags with an empty value, because an unset variable of a script must not select everything, and
// a flag of Once that is given twice.
func CheckFlags(flags *pflag.FlagSet) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "" {
			errs = append(errs, fmt.Errorf("--%s: is empty: give it a value, or leave it out", f.Name))
		}
		if once, ok := f.Value.(*onceFlag); ok && once.times > 1 {
			errs = append(errs, fmt.Errorf("--%s: is given twice (%s), and %s", f.Name, *once.value, once.why))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return Usage(err)
	}
	return nil
}

// NoArgs refuses arguments, and unknown commands, with exit code 2.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return UnknownCommand(cmd, args[0])
	}
	return Usagef("%s takes no arguments, got %q", cmd.CommandPath(), args)
}

// OptionalArg refuses more than one argument, with exit code 2.
func OptionalArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return Usagef("%s takes at most one argument, got %q", cmd.CommandPath(), args)
	}
	return nil
}

// UnknownCommand is the error of a command that parent does not have.
func UnknownCommand(parent *cobra.Command, name string) error {
	path, hint := strings.TrimPrefix(parent.CommandPath()+" "+name, parent.Root().Name()+" "), ""
	if parent.SuggestionsMinimumDistance == 0 {
		parent.SuggestionsMinimumDistance = parent.Root().SuggestionsMinimumDistance
	}
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return Usagef("unknown command %q%s\n`%s --help` lists the commands", path, hint, parent.CommandPath())
}
