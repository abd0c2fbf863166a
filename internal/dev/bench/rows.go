package main

import "strconv"

// Sixteen of each, so that four bits choose one.
var (
	sections = [16]string{
		"guides", "concepts", "reference", "tutorials", "platform", "settings", "security", "analytics",
		"changelog", "billing", "deployment", "webhooks", "components", "examples", "overview", "migration",
	}
	topics = [16]string{
		"quickstart", "pagination", "rate-limits", "api-tokens", "single-sign", "custom-domain", "monitoring", "page-layout",
		"navigation", "versioning", "file-upload", "error-codes", "retry-policy", "data-export", "user-roles", "search-index",
	}
)

// rowBytes is about how long a row is as JSON.
const rowBytes = 96

// appendPage appends the answer to a request for a page of a window of so many
// rows. Every page of a window carries the same totals; every path comes once, in
// no order; day changes the counts and leaves the paths, as days do.
func appendPage(b []byte, rows, day, offset, limit int) []byte {
	b = append(b, `{"totals":`...)
	b = appendCounts(append(b, '{'), int64(rows)*3, int64(rows), int64(rows)*7/2)
	b = append(b, `,"visitors":[`...)
	end := min(rows, offset+limit)
	for i := offset; i < end; i++ {
		if i > offset {
			b = append(b, ',')
		}
		b = appendRow(b, uint32(i), uint32(day))
	}
	b = append(b, `],"hasMore":`...)
	return append(strconv.AppendBool(b, end < rows), '}')
}

// appendRow appends row i. Multiplying by an odd number is a bijection of the
// 32-bit numbers, so all paths differ, and neighbours are far apart.
func appendRow(b []byte, i, day uint32) []byte {
	const hexDigits = "0123456789abcdef"
	mixed := i * 2_654_435_761
	b = append(b, `{"path":"/docs/`...)
	b = append(append(b, sections[mixed>>28]...), '/')
	b = append(append(b, topics[mixed>>24&15]...), '-')
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[mixed>>shift&15])
	}
	human, ai := int64((mixed^day)%5000), int64((mixed>>13+day)%700)
	return appendCounts(append(b, `",`...), human, ai, max(human, ai)+min(human, ai)/2)
}

func appendCounts(b []byte, human, ai, total int64) []byte {
	b = strconv.AppendInt(append(b, `"human":`...), human, 10)
	b = strconv.AppendInt(append(b, `,"ai":`...), ai, 10)
	b = strconv.AppendInt(append(b, `,"total":`...), total, 10)
	return append(b, '}')
}
