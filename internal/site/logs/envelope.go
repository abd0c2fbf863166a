package logs

import "bytes"

// envelope is what a line says of another one that is in it.
type envelope struct {
	inside []byte
	at     int64 // the time; 0 if it says none
	// stream is the one of the container, o or e; 0 if the line is of none. isPart: the runtime has split the line, and
	// the rest is in the next ones of the stream.
	stream byte
	isPart bool
}

// open opens lines of syslog (RFC 3164, 5424 and with ISO times), journald (short and export), of containers (CRI,
// docker logs, docker compose logs, kubectl logs --prefix), and Caddy's console. An error is about a line that has
// none in it.
func open(line []byte) (e envelope, err error) {
	if e, ok := openCRI(line); ok {
		return e, nil
	}
	e.inside, e.at, err = openOther(line)
	return e, err
}

// openCRI opens a line that a container's runtime has written: time, stream, P or F, and a line.
func openCRI(line []byte) (e envelope, ok bool) {
	const stream = len("stdout ")
	at := bytes.IndexByte(line[:min(len(line), len("2006-01-02T15:04:05.000000000+07:00 "))], ' ') + 1
	if at < len("2006-01-02T15:04:05Z ") || line[10] != 'T' || len(line) < at+stream+len("F ") {
		return e, false
	}
	rest := line[at:]
	if word := string(rest[:stream]); word != "stdout " && word != "stderr " || rest[stream+1] != ' ' {
		return e, false
	}
	t, _, ok := readTime(line[:at-1])
	return envelope{rest[stream+2:], t, rest[len("std")], rest[stream] == 'P'}, ok
}

// dockerPart is the number of bytes that Docker writes as one line, at most.
const dockerPart = 16 << 10

// isDockerPart reports whether a line that is in an object of Docker goes on in the next one of its stream.
func isDockerPart(inside []byte) bool {
	return len(inside) >= dockerPart && inside[len(inside)-1] != '\n'
}

// outermost returns the envelope of a line of a container, as far as it says the stream and whether the line is a part.
// A long line of Docker may be taken for one.
func outermost(line []byte) (e envelope, ok bool) {
	rest, isDocker := bytes.CutPrefix(line, []byte(`{"log":"`))
	if !isDocker {
		return openCRI(line)
	}
	end := bytes.LastIndex(rest, []byte(`","stream":"std`))
	if end < 0 {
		return e, false
	}
	e.stream = rest[end+len(`","stream":"std`)]
	e.isPart = end >= dockerPart && (rest[end-1] != 'n' || !isEscaped(rest[:end-1]))
	return e, true
}

const (
	// maxParts bounds the parts of lines at the end of a chunk that wait for the rest.
	maxParts = chunkSize / 2
	// maxBetween is the number of lines that may be between the parts of a line, of the other stream.
	maxBetween = 100
)

// withoutParts returns how many bytes of whole lines are before the parts of a line whose rest is not in the text.
func withoutParts(text []byte) int {
	end := len(text)
	var isWhole [256]bool // the last line of a stream
	for at, n := len(text), 0; at > 0 && n < maxBetween && (!isWhole['o'] || !isWhole['e']); n++ {
		begin := bytes.LastIndexByte(text[:at-1], '\n') + 1
		e, ok := outermost(text[begin : at-1])
		switch {
		case !ok:
			n = maxBetween
		case !e.isPart:
			isWhole[e.stream] = true
		case !isWhole[e.stream]:
			end = begin
		}
		at = begin
	}
	if len(text)-end > maxParts {
		return len(text)
	}
	return end
}

// openOther returns the line that is in another one, and the time that the outer one says.
func openOther(line []byte) (inside []byte, at int64, err error) {
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
				return bytes.TrimPrefix(v[min(i+2, len(v)):], byteOrderMark), t, nil
			}
		}
		return nil, 0, nil
	}
	if _, inside, _ = bytes.Cut(v, []byte(" ")); len(v) == 0 || v[0] != '-' {
		return nil, 0, nil
	}
	return bytes.TrimPrefix(inside, byteOrderMark), t, nil
}
