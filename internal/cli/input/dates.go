package input

import "github.com/docgauge/docgauge/internal/analytics"

// DateFlag reads the value of a flag; nil means no limit.
func DateFlag(name, text string) (*analytics.Date, error) {
	if text == "" {
		return nil, nil
	}
	d, err := analytics.ParseDate(text)
	if err != nil {
		return nil, Usagef("--%s: %w", name, err)
	}
	return &d, nil
}

// DateFlags reads the values of --from and --to, the first day after the days, windows or samples.
func DateFlags(fromText, toText, what string) (from, to *analytics.Date, err error) {
	if from, err = DateFlag("from", fromText); err == nil {
		to, err = DateFlag("to", toText)
	}
	if err == nil && from != nil && to != nil && *from >= *to {
		err = EmptyRange(*from, *to, what)
	}
	return from, to, err
}

// EmptyRange is the error of a --to that is not after --from.
func EmptyRange(from, to analytics.Date, what string) error {
	return Usagef("--from %s, --to %s: the range is empty; --to is the first day after the %s", from, to, what)
}
