package input

import (
	"errors"
	"io"

	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/cli/render"
)

// Formats are the flags of commands that print a table, JSON or CSV.
type Formats struct{ JSON, CSV bool }

// PlainCSV is what --csv of commands with paths does.
const PlainCSV = "print CSV with unmodified paths"

// Flags adds --json and --csv, with their descriptions.
func (o *Formats) Flags(f *pflag.FlagSet, json, csv string) {
	f.BoolVar(&o.JSON, "json", false, json)
	f.BoolVar(&o.CSV, "csv", false, csv)
}

// Check refuses both flags together.
func (o Formats) Check() error {
	if o.JSON && o.CSV {
		return Usage(errors.New("--json, --csv: want one of the two"))
	}
	return nil
}

// Write prints a result: as JSON, as CSV, or as text for people.
func (o Formats) Write(w io.Writer, result any, csv, text func() error) error {
	switch {
	case o.JSON:
		return render.JSON(w, result)
	case o.CSV:
		return csv()
	}
	return text()
}
