// Package audit reads the audit events of servers, wherever they were kept, and says who had something at a time: a
// lock, a run, a machine ID, an identity of placement.
package audit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
)

// MaxLineBytes is how long a line may be; a longer one is broken. Sinks of logs cut theirs at 256 KiB and less.
const MaxLineBytes = 1 << 20

// maxValueBytes is how long a JSON value over many lines may be: an entry of a list, or a document that is none.
const maxValueBytes = 64 << 20

// mostBroken is how many broken lines a log names; the others are counted.
const mostBroken = 100

// mostDepth is how deep an event may lie in what an export puts around it.
const mostDepth = 6

// Log is the audit events about one thing that were read. Of others it keeps only their place in the chain, of some 64
// bytes.
type Log struct {
	About Thing

	Events      []contracts.AuditEvent // each once, in the order in which they were read
	Broken      []Broken               // the first mostBroken of what could not be read, in that order
	BrokenLines int                    // how many could not be read
	Some        bool                   // there were lines or values at all, whether or not they are events

	first, last contracts.Time // of all events, also about other things
	chain       links          // of all events
	places      []link         // of Events
	ids         map[eventID]bool
}

// eventID tells events apart: one that was changed has the ID of the other.
type eventID struct {
	id   string
	hash digest
}

// broken notes what could not be read.
func (l *Log) broken(b Broken) {
	if l.BrokenLines++; len(l.Broken) < mostBroken {
		l.Broken = append(l.Broken, b)
	}
}

// notJSON is what is wrong with most lines that have nothing to do with events.
const notJSON = "it is not JSON"

// Reason is the first broken line that says more than that it is not JSON, or else the first; the zero value if there
// is none.
func (l *Log) Reason() Broken {
	if len(l.Broken) == 0 {
		return Broken{}
	}
	return l.Broken[max(0, slices.IndexFunc(l.Broken, func(b Broken) bool { return b.Why != notJSON }))]
}

// Broken is a line that is no event and may have been one.
type Broken struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	Why  string `json:"why"`
}

// String is file:line: why.
func (b Broken) String() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Why) }

// Read reads a file of lines of JSON, or one JSON document, and takes the audit events out of it, wherever they lie: in
// lines of a server's log, in messages of CloudWatch Logs as it exports, delivers or prints them, in entries of Cloud
// Logging. Other lines of JSON are left out, and events that were read before as well; what cannot be read is in
// l.Broken. A file may be compressed with gzip. The error is that of the file.
func (l *Log) Read(name string, in io.Reader) error {
	r := bufio.NewReaderSize(in, MaxLineBytes)
	if magic, err := r.Peek(2); err == nil && isGzip(magic) {
		unzipped, err := gzip.NewReader(r)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r = bufio.NewReaderSize(unzipped, MaxLineBytes)
	}
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		text := bytes.TrimSpace(line)
		why := ""
		switch {
		case tooLong:
			why = fmt.Sprintf("the line is longer than %d bytes", MaxLineBytes)
		case len(text) == 0:
		case number == 1 && isDocument(text): // over many lines
			if err := l.document(name, io.MultiReader(bytes.NewReader(bytes.Clone(line)), r), text[0] == '['); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		default:
			l.Some = l.Some || string(text) != "[]" // an export in which there is nothing
			why = l.line(text)
		}
		if why != "" {
			l.broken(Broken{name, number, why})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// isDocument reports whether a first line begins a document that goes on in the next ones.
func isDocument(first []byte) bool {
	return (first[0] == '[' || first[0] == '{') && !json.Valid(first) && len(first) <= 2
}

// document reads JSON values that need not be lines: a list entry by entry.
func (l *Log) document(name string, in io.Reader, isList bool) error {
	rest := &limited{in: in, left: maxValueBytes}
	d, begin, list := json.NewDecoder(rest), isList, false
	for {
		var v json.RawMessage
		var err error
		switch {
		case list && !d.More():
			if _, err = d.Token(); err == nil {
				list = false
			}
		case list:
			err = d.Decode(&v)
		case begin:
			_, err = d.Token()
			list, begin = true, false
		default:
			err = d.Decode(&v)
		}
		switch syntax := (*json.SyntaxError)(nil); {
		case errors.Is(err, io.EOF) && !list:
			return nil
		case errors.Is(err, errTooLong):
			l.broken(Broken{name, 1, fmt.Sprintf("a value is longer than %d bytes: give lines", maxValueBytes)})
			return nil
		case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			l.broken(Broken{name, 1, fmt.Sprintf("the document is not JSON from byte %d on", d.InputOffset())})
			return nil
		case err != nil:
			return err
		}
		rest.left = maxValueBytes
		l.Some = true
		if why := l.value(v, 0); why != "" {
			l.broken(Broken{name, 1, why})
		}
	}
}

// errTooLong is what limited reports.
var errTooLong = errors.New("the value is too long")

// limited reads so many bytes at most.
type limited struct {
	in   io.Reader
	left int
}

// Read implements [io.Reader].
func (r *limited) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, errTooLong
	}
	n, err := r.in.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}

// line reads a line, and says what is wrong with it. An export may have put its time in front.
func (l *Log) line(text []byte) (why string) {
	start := bytes.IndexAny(text, "{[")
	switch {
	case bytes.Contains(text, []byte("msg=audit ")):
		return "it is in the text format, which is for people: set LEASEHOLD_LOG=json or LEASEHOLD_AUDIT_LOG"
	case start < 0:
		return notJSON
	}
	d := json.NewDecoder(bytes.NewReader(text[start:]))
	for { // a delivery may have put several beside each other
		var v json.RawMessage
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return why
		} else if err != nil {
			return notJSON
		}
		if w := l.value(v, 0); w != "" {
			why = w
		}
	}
}

// value finds the events in a JSON value.
func (l *Log) value(v []byte, depth int) (why string) {
	v = bytes.TrimSpace(v)
	if depth > mostDepth || len(v) == 0 {
		return ""
	}
	if v[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			return ""
		}
		for _, one := range list {
			if w := l.value(one, depth+1); w != "" {
				why = w
			}
		}
		return why
	}
	var members map[string]json.RawMessage
	if v[0] != '{' || json.Unmarshal(v, &members) != nil {
		return ""
	}
	if event, ok := members["audit"]; ok && isAudit(members) {
		return l.event(event)
	}
	for _, within := range []string{"jsonPayload", "json_payload", "message", "@message", "textPayload", "logEvents",
		"events", "entries"} {
		inner, ok := members[within]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal(inner, &text) == nil {
			if inner = []byte(strings.TrimSpace(text)); len(inner) == 0 || inner[0] != '{' {
				continue
			}
		}
		if w := l.value(inner, depth+1); w != "" {
			why = w
		}
	}
	return why
}

// isAudit reports whether a line of a log is that of an event.
func isAudit(members map[string]json.RawMessage) bool {
	return string(members["msg"]) == `"audit"` || string(members["message"]) == `"audit"`
}

// event keeps an event, unless it was read before.
func (l *Log) event(text []byte) (why string) {
	var e contracts.AuditEvent
	var place link
	switch covered, err := decode(text, &e); {
	case err != nil:
		return "it is no audit event: " + err.Error()
	case e.Schema != contracts.AuditSchema:
		return fmt.Sprintf("its schema is %d, and this program knows %d", e.Schema, contracts.AuditSchema)
	case e.ID == "":
		return "it is an audit event without an ID"
	case when(e.At).IsZero():
		return "it is an audit event without a time"
	default:
		place = l.chain.add(&e, covered)
	}
	if l.first == "" || e.At < l.first {
		l.first = e.At
	}
	if l.last = max(l.last, e.At); !l.About.in(&e) {
		return ""
	}
	if l.ids == nil {
		l.ids = map[eventID]bool{}
	}
	if id := (eventID{e.ID, place.hash}); !l.ids[id] {
		l.ids[id], e.MachineIDs = true, nil
		l.Events, l.places = append(l.Events, e), append(l.places, place)
	}
	return ""
}
