package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// table writes rows under a header, in columns without lines, numbers to the
// right.
func table(w io.Writer, header []string, rows [][]string, numeric ...int) error {
	align := make(tw.Alignment, len(header))
	for i := range align {
		align[i] = tw.AlignLeft
	}
	for _, i := range numeric {
		align[i] = tw.AlignRight
	}
	t := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		})),
		tablewriter.WithAlignment(align),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}),
	)
	t.Header(header)
	if err := t.Bulk(rows); err != nil {
		return err
	}
	return t.Render()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func commas(n int64) string { return humanize.Comma(n) }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return commas(int64(n)) + " " + one + "s"
}

// clock shows a time to the minute, in UTC.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
