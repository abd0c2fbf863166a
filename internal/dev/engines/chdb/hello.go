//go:build linux

package main

import (
	"encoding/binary"
	"strconv"
)

const displayName = "chdb"

// customSerialization is the protocol revision from which a column carries a
// flag before its data.
const customSerialization = 54454

// hello answers the first query of clickhouse-go. The client reads it at its
// own revision, and every later answer at the revision it names: 0, which is
// how the library writes Native.
type hello struct{ version, timezone string }

// isHello reports whether req is the first query of a connection.
func isHello(req *request) bool {
	return req.format == "Native" && req.sql == "SELECT displayName(), version(), revision(), timezone()"
}

// encode writes the answer as one Native block of one row at the revision protocol.
func (h hello) encode(protocol string) []byte {
	revision, _ := strconv.Atoi(protocol)
	var b []byte
	if revision > 0 {
		b = append(b, 1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0)
	}
	b = append(b, 4, 1)
	column := func(name, kind string, data []byte) {
		b = appendString(appendString(b, name), kind)
		if revision >= customSerialization {
			b = append(b, 0)
		}
		b = append(b, data...)
	}
	column("displayName()", "String", appendString(nil, displayName))
	column("version()", "String", appendString(nil, h.version))
	column("revision()", "UInt32", make([]byte, 4))
	column("timezone()", "String", appendString(nil, h.timezone))
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
