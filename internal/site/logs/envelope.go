package logs

import "bytes"

// open returns the line that is in another one, and the time that the outer one says, 0 if it says none: lines of
// syslog (RFC 3164, 5424 and with ISO times), journald (short and export), of containers (CRI, docker logs, docker
// compose logs, kubectl logs --prefix), and Caddy's console. An error is that of a line that has no whole one.
func open(line []byte) (inside []byte, at int64, err error) {
	if rest, ok := bytes.CutPrefix(line, []byte("MESSAGE=")); ok {
		return rest, 0, nil
	}
	if isVariable(line) {
		return nil, 0, errDescription
	}
	if len(line) > 3 && line[0] == '<' {
		end := bytes.IndexByte(line[:min(len(line), 6)], '>')
		if _, ok := digits(line[1:max(end, 1)]); end < 2 || !ok {
			return nil, 0, nil
		}
		if line = line[end+1:]; bytes.HasPrefix(line, []byte("1 ")) {
			return openStructured(line[2:])
		}
	}
	word, rest, _ := bytes.Cut(line, []byte(" "))
	switch {
	case len(line) > 16 && line[3] == ' ' && line[6] == ' ' && line[15] == ' ' && bytes.Index(months, line[:3])%3 == 0:
		inside, _ = afterTag(line[16:])
		return inside, 0, nil
	case len(word) > 18 && word[10] == 'T' && word[4] == '-':
		t, _, ok := readTime(word)
		if !ok {
			return nil, 0, nil
		}
		for _, stream := range [...]string{"stdout ", "stderr "} {
			if after, ok := bytes.CutPrefix(rest, []byte(stream)); ok && len(after) > 2 && after[1] == ' ' {
				if after[0] == 'P' {
					return nil, 0, errPart
				}
				return after[2:], t, nil
			}
		}
		if inside, ok := afterTag(rest); ok {
			return inside, t, nil
		}
		return rest, t, nil
	case bytes.HasPrefix(line, []byte("[pod/")):
		_, inside, _ = bytes.Cut(line, []byte("] "))
		return inside, 0, nil
	case len(line) > 24 && line[4] == '/' && line[7] == '/' && line[10] == ' ':
		stamp, _, _ := bytes.Cut(line, []byte("\t"))
		t, _, ok := readTime(stamp)
		if begin := bytes.Index(line, []byte("\t{")); ok && begin > 0 {
			return line[begin+1:], t, nil
		}
	case len(word) > 0 && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte("| ")):
		return bytes.TrimLeft(rest, " ")[2:], 0, nil
	}
	return nil, 0, nil
}

// isVariable reports whether a line is NAME=value, as journald exports what it knows of a message.
func isVariable(line []byte) bool {
	for i, c := range line {
		switch {
		case c == '=':
			return i > 0
		case c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9' || i == 0):
			return false
		}
	}
	return false
}

// afterTag returns what is after a host and a program's name, which ends with a colon.
func afterTag(v []byte) (inside []byte, ok bool) {
	_, v, _ = bytes.Cut(v, []byte(" "))
	tag, inside, _ := bytes.Cut(v, []byte(" "))
	if len(tag) == 0 || tag[len(tag)-1] != ':' {
		return nil, false
	}
	return inside, true
}

// openStructured opens a line of RFC 5424 after its version.
func openStructured(v []byte) (inside []byte, at int64, err error) {
	stamp, _, _ := bytes.Cut(v, []byte(" "))
	t, _, _ := readTime(stamp)
	for range 5 { // time, host, program, process, message
		_, v, _ = bytes.Cut(v, []byte(" "))
	}
	if len(v) > 0 && v[0] == '[' {
		isQuoted := false
		for i, c := range v {
			switch {
			case c == '"' && !isEscaped(v[:i]):
				isQuoted = !isQuoted
			case c == ']' && !isQuoted && (i+1 == len(v) || v[i+1] == ' '):
				return bytes.TrimPrefix(v[min(i+2, len(v)):], []byte("\ufeff")), t, nil
			}
		}
		return nil, 0, nil
	}
	if _, inside, _ = bytes.Cut(v, []byte(" ")); len(v) == 0 || v[0] != '-' {
		return nil, 0, nil
	}
	return bytes.TrimPrefix(inside, []byte("\ufeff")), t, nil
}
