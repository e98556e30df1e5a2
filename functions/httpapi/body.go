package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// decode reads a body strictly: one JSON object, no unknown, doubled or differently spelled members, no null in place
// of a value, no more than most bytes. Every error names the member at fault, or "body". The Content-Type is not looked
// at: a body that is no JSON is rejected anyway, and `curl -d` works as it is.
func decode(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	body, err := readBody(w, r, most)
	if err != nil {
		return err
	}
	return parse(body, into)
}

// readBody reads a body of so many bytes at the most; more is PAYLOAD_TOO_LARGE.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := ReadBody(w, r, most+1)
	if err == nil && int64(len(body)) > most {
		return nil, tooLarge(most)
	}
	return body, err
}

func tooLarge(most int64) error {
	return contracts.Errorf(contracts.CodePayloadTooLarge, "this body has at most %d bytes", most)
}

const (
	// bodyTime is how long a body may be on its way, or half of the time of a request if that is less.
	bodyTime = 5 * time.Second

	// What a body counts as in Limits.BodyBytes, at the least and at the most.
	bodyLeast = 16 << 10
	bodyMost  = 2 << 20

	// restTime is how long the rest of a body that no one wants may take to arrive. A connection on which it does not
	// ends with the response.
	restTime = time.Second
)

// ReadBody reads the body of a request whose caller was let in, for a [Route]: so many bytes at the most, within the
// time and the memory that bodies may take, and the share of them that the caller has. The error is OVERLOADED,
// REQUEST_TIMEOUT or names the body.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	n := noteOf(r)
	limit, within := n.bodies()
	size := most
	if r.ContentLength >= 0 {
		size = min(most, r.ContentLength)
	}
	size = min(max(size, bodyLeast), bodyMost)
	if err := limit.enter(r.Context(), n.party, size); err != nil {
		return nil, err
	}
	defer limit.leave(n.party, size)
	// A writer that is not that of a server has the body at hand, and no such limit.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	n.whole = err != nil || int64(len(body)) < most
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, contracts.Errorf(contracts.CodeRequestTimeout, "the body did not arrive within %v; nothing was done", within)
	case err != nil:
		return nil, field.Errorf("body", "ended before it was whole")
	}
	return body, nil
}

// dropRest reads the rest of a body that no one wants before the response, so that the connection can be used again, or
// says that it cannot be. It is on behalf of its caller, or of the network of one that is not known, as any body.
// HTTP/2 needs it not.
func (n *exchangeLog) dropRest(w http.ResponseWriter, r *http.Request) {
	if n.whole || r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody ||
		r.Header.Get("Expect") != "" { // the server has not asked for the body, and ends the connection
		return
	}
	if !n.restArrives(w, r) {
		w.Header()["Connection"] = closeConnection
	}
}

// restArrives reads the rest of a body, if there is room for it.
func (n *exchangeLog) restArrives(w http.ResponseWriter, r *http.Request) bool {
	by := n.party
	if by == (party{}) {
		by = stranger(r.RemoteAddr)
	}
	limit, _ := n.bodies()
	if limit.try(by, bodyLeast) != nil {
		return false
	}
	defer limit.leave(by, bodyLeast)
	conn := http.NewResponseController(w)
	if conn.SetReadDeadline(time.Now().Add(restTime)) != nil {
		return true // it is not the connection of a server
	}
	defer conn.SetReadDeadline(time.Time{}) //nolint:errcheck // the server reads on, to learn when the caller goes
	_, err := io.CopyN(io.Discard, r.Body, MaxBodyBytes)
	return errors.Is(err, io.EOF)
}

// parse is [decode] of a body that was read.
func parse(body []byte, into any) error {
	if len(body) == 0 {
		return field.Errorf("body", "is empty: send a JSON object")
	}
	if err := Strictly(body, "body", into); err != nil {
		return err
	}
	if err := noNulls(body); err != nil {
		return err
	}
	if err := noEmptyEnd(body); err != nil {
		return err
	}
	return noneMissing(body, into)
}

// Strictly decodes a JSON object into a struct, without unknown, doubled or differently spelled members, and without
// null in place of text, numbers and objects. Errors name the member at fault, or the whole text as the caller calls
// it.
func Strictly(text []byte, whole string, into any) error {
	if string(bytes.TrimSpace(text)) == "null" {
		return field.Errorf(whole, "must be a JSON object, not null")
	}
	if err := jsonv2.Unmarshal(text, into, strict); err != nil {
		return explain(err, text, whole)
	}
	return nil
}

// noEmptyEnd rejects an end of a request that is empty text: the request would have none, as if it were left out.
func noEmptyEnd(body []byte) error {
	if !bytes.Contains(body, []byte(`""`)) {
		return nil
	}
	var values map[string]jsontext.Value // a name may be escaped: the text does not say which there are
	if jsonv2.Unmarshal(body, &values) != nil {
		return nil //nolint:nilerr // what is no object is rejected by what reads it
	}
	for _, name := range []string{"not_after", "notAfter"} {
		if string(values[name]) == `""` {
			return field.Errorf(name, "is empty: give a time in RFC 3339, or leave it out")
		}
	}
	return nil
}

// noneMissing rejects a body without a number that it must have. The rules see 0 then, and would speak of its range;
// they speak of missing text themselves.
func noneMissing(body []byte, into any) error {
	v := reflect.Indirect(reflect.ValueOf(into))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for _, n := range numbersOf(v.Type()) {
		if v.Field(n.field).Int() == 0 && !members(body)[n.name] {
			return missing(n.name)
		}
	}
	return nil
}

// needed is a number that a body must have.
type needed struct {
	field int
	name  string
}

// numbers are those of the types of bodies, which are few.
var numbers sync.Map

// numbersOf returns the numbers that a body of this type must have.
func numbersOf(t reflect.Type) []needed {
	if known, ok := numbers.Load(t); ok {
		return known.([]needed) //nolint:forcetypeassert // nothing else is stored
	}
	var list []needed
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if t.Field(i).Type.Kind() == reflect.Int64 && !strings.Contains(options, "omitempty") {
			list = append(list, needed{i, name})
		}
	}
	numbers.Store(t, list)
	return list
}

func missing(name string) error { return field.Errorf(name, "is required: a whole number") }

// members returns the names of the members of a body that has been parsed before.
func members(body []byte) map[string]bool {
	var values map[string]jsontext.Value
	if err := jsonv2.Unmarshal(body, &values); err != nil {
		return nil
	}
	given := make(map[string]bool, len(values))
	for name := range values {
		given[name] = true
	}
	return given
}

// noNulls rejects null in a body that is well formed: the decoder takes it for a member that was left out, and the
// contract has no place for it.
func noNulls(body []byte) error {
	if !bytes.Contains(body, []byte("null")) {
		return nil
	}
	for d := jsontext.NewDecoder(bytes.NewReader(body)); ; {
		token, err := d.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // the end of a body that has been read before
		}
		if token.Kind() != 'n' {
			continue
		}
		if d.StackPointer() == "" {
			return field.Errorf("body", "must be a JSON object, not null")
		}
		return field.Errorf(member(d.StackPointer()), "must not be null: leave it out")
	}
}

var strict = jsonv2.JoinOptions(jsonv2.RejectUnknownMembers(true), noNull)

// noNull rejects null for text, numbers and objects: it would silently become the empty value.
var noNull = jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFromFunc(notNull[string]), jsonv2.UnmarshalFromFunc(notNull[int64]),
	jsonv2.UnmarshalFromFunc(notNull[*int64]),
	jsonv2.UnmarshalFromFunc(notNull[contracts.Metadata]), jsonv2.UnmarshalFromFunc(notNull[map[string]string]),
	jsonv2.UnmarshalFromFunc(notNull[contracts.RunEnd]),
))

func notNull[T any](d *jsontext.Decoder, _ *T) error {
	if d.PeekKind() != 'n' {
		return errors.ErrUnsupported
	}
	return nullError{reflect.TypeFor[T]()}
}

// nullError is null where a value of a type belongs.
type nullError struct{ wanted reflect.Type }

func (e nullError) Error() string { return "must be " + typeName(e.wanted) + ", not null" }

// typeName is a type in the words of JSON.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time in RFC 3339"
	}
	switch t.Kind() {
	case reflect.Int64, reflect.Int:
		return "a whole number"
	case reflect.String:
		return "text"
	case reflect.Map:
		return "an object whose values are text"
	case reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "text in base64"
		}
		return "a list"
	default:
		return "another type"
	}
}

// explain says what is wrong with a text in terms of its members.
func explain(err error, text []byte, whole string) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return field.Errorf(cmp.Or(member(syntactic.JSONPointer), whole), "is given twice")
		}
		line, column := position(text, syntactic.ByteOffset)
		return field.Errorf(whole, "is not JSON: line %d, column %d: %s", line, column, cause(syntactic.Err))
	}
	var semantic *jsonv2.SemanticError
	if !errors.As(err, &semantic) {
		return field.Errorf(whole, "is not JSON")
	}
	name := cmp.Or(member(semantic.JSONPointer), whole)
	if errors.Is(err, jsonv2.ErrUnknownName) {
		return field.Errorf(name, "is not a member of this %s: check its spelling, or remove it", whole)
	}
	if semantic.JSONPointer == "" {
		return field.Errorf(whole, "must be a JSON object, not %s", kindName(semantic.JSONKind))
	}
	if null, ok := errors.AsType[nullError](err); ok {
		return field.Errorf(name, "%v", null)
	}
	if semantic.JSONKind == '0' && len(bytes.Trim(semantic.JSONValue, "-0123456789")) == 0 &&
		semantic.GoType.Kind() == reflect.Int64 {
		return field.Errorf(name, "has too many digits: numbers go up to %d", int64(docstore.MaxInt))
	}
	if semantic.JSONKind == '"' && semantic.GoType == reflect.TypeFor[[]byte]() {
		return field.Errorf(name,
			`is not base64: use the standard alphabet (A-Z, a-z, 0-9, "+", "/"), and "=" at the end`)
	}
	got := kindName(semantic.JSONKind)
	if len(semantic.JSONValue) > 0 && len(semantic.JSONValue) <= 32 {
		got = string(semantic.JSONValue)
	}
	return field.Errorf(name, "must be %s, not %s", typeName(semantic.GoType), got)
}

// member names a place in a body as people write it: "/metadata/build" is "metadata.build". A name that would not be
// visible in a sentence is quoted. The whole has none.
func member(p jsontext.Pointer) string {
	var names []string
	for token := range p.Tokens() {
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			token = strconv.Quote(token)
		}
		names = append(names, token)
	}
	return clip(strings.Join(names, "."))
}

// clip keeps what is quoted from a request short.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "text"
	case '0':
		return "a number"
	case '[':
		return "a list"
	case '{':
		return "an object"
	default:
		return "something else"
	}
}

func position(body []byte, offset int64) (line, column int) {
	before := string(body[:min(int(offset), len(body))])
	line = strings.Count(before, "\n") + 1
	return line, len(before) - strings.LastIndexByte(before, '\n')
}

func cause(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "it ends too early"
	}
	return clip(err.Error())
}

// Send responds 200 with a JSON body, or 204 without one if it is nil, for a [Route].
func Send(w http.ResponseWriter, body any) error { return send(w, body) }

// send responds 200 with a JSON body, or 204 without one if it is nil.
func send(w http.ResponseWriter, body any) error {
	if body == nil {
		w.Header()["Cache-Control"] = noStore
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return sendAs(w, http.StatusOK, "application/json", body)
}

var newline = []byte("\n")

func sendAs(w http.ResponseWriter, status int, contentType string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode %T: %w", body, err)
	}
	h := w.Header()
	values := [...]string{contentType, strconv.Itoa(len(b) + 1)}      // of two headers, in one piece
	h["Content-Type"], h["Content-Length"] = values[:1:1], values[1:] // a flushed response is whole
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	// Errors here mean that the caller is gone. What is written is sent in one piece.
	_, _ = w.Write(b)
	_, _ = w.Write(newline)
	return nil
}
