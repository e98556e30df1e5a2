package awsdynamodb

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// response reads what the service says of an UpdateItem straight into a document: the document after it, or the one found by a
// condition that did not hold. The SDK would make two more copies of each, and of a refusal, which is nothing unusual here, an error in five layers.
// What it does not know it leaves to the SDK.
type response struct {
	smithyhttp.ClientProtocol // the SDK's

	complete bool // the others say what the response was
	refused  bool
	doc      docstore.Doc
	size     int     // of the item that was found, where refused
	units    float64 // that the service bills, if it was asked to say so and not refused
}

// option makes the SDK use it for one call.
func (r *response) option(o *dynamodb.Options) {
	r.ClientProtocol = o.Protocol
	o.Protocol = r
}

// maxPooled is the size of a buffer that is kept for the next response: documents are small, but for a few.
const maxPooled = 64 << 10

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// DeserializeResponse implements [smithyhttp.ClientProtocol]. A refusal is no error: the caller looks at refused.
func (r *response) DeserializeResponse(
	ctx context.Context, schema *smithy.OperationSchema, types *smithy.TypeRegistry, res *smithyhttp.Response, out smithy.Deserializable,
) error {
	*r = response{ClientProtocol: r.ClientProtocol}
	body := bodies.Get().(*bytes.Buffer) //nolint:forcetypeassert // New says so
	defer func() {
		if body.Cap() <= maxPooled {
			bodies.Put(body)
		}
	}()
	body.Reset()
	if _, err := body.ReadFrom(res.Body); err != nil {
		return &smithy.DeserializationError{Err: err}
	}
	switch res.StatusCode {
	case http.StatusOK:
		r.doc, r.units, r.complete = readUpdated(body.String())
	case http.StatusBadRequest:
		r.doc, r.size, r.complete = readRefusal(body.String())
		r.refused = r.complete
	}
	if r.complete {
		return nil
	}
	res.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
	return r.ClientProtocol.DeserializeResponse(ctx, schema, types, res, out)
}

// readUpdated reads the body of a response to UpdateItem with ALL_NEW.
func readUpdated(body string) (doc docstore.Doc, units float64, ok bool) {
	s := scanner{rest: body}
	s.object(func(name string) bool {
		switch name {
		case "Attributes":
			doc = s.item()
		case "ConsumedCapacity":
			units = s.capacity()
		default:
			return false
		}
		return true
	})
	return doc, units, s.ended() && doc != nil
}

// readRefusal reads the body of a ConditionalCheckFailedException. Without an item there was none, or the server does not show it.
func readRefusal(body string) (found docstore.Doc, size int, ok bool) {
	s := scanner{rest: body}
	refused := false
	s.object(func(name string) bool {
		switch name {
		case "__type":
			_, code, _ := strings.Cut(s.text(), "#")
			refused = code == "ConditionalCheckFailedException"
		case "message", "Message":
			s.text()
		case "Item":
			found = s.item()
		default:
			return false
		}
		return true
	})
	return found, s.size, s.ended() && refused
}

// scanner reads JSON of the forms that documents of Leasehold have. It gives up at anything else.
type scanner struct {
	rest   string
	failed bool
	size   int // of the items, as the service bills it
}

// ended reports whether all was read.
func (s *scanner) ended() bool {
	s.space()
	return !s.failed && s.rest == ""
}

func (s *scanner) space() {
	s.rest = strings.TrimLeft(s.rest, " \t\r\n")
}

// next reports whether the next character is c, and passes it.
func (s *scanner) next(c byte) bool {
	if s.rest == "" || s.rest[0] != c {
		if s.space(); s.rest == "" || s.rest[0] != c {
			return false
		}
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) expect(c byte) {
	if !s.next(c) {
		s.failed = true
	}
}

// object reads an object; each is called for each name and reads the value, or says that it does not know the name.
func (s *scanner) object(each func(name string) bool) {
	s.expect('{')
	if s.next('}') {
		return
	}
	for !s.failed {
		name := s.text()
		s.expect(':')
		if s.failed || !each(name) {
			s.failed = true
			return
		}
		if s.next('}') {
			return
		}
		s.expect(',')
	}
}

// text reads a string.
func (s *scanner) text() string {
	if s.expect('"'); s.failed {
		return ""
	}
	end := strings.IndexByte(s.rest, '"')
	if end < 0 {
		s.failed = true
		return ""
	}
	text := s.rest[:end]
	if strings.IndexByte(text, '\\') < 0 {
		s.rest = s.rest[end+1:]
		return text
	}
	return s.escaped()
}

// escaped reads the rest of a string that has escapes.
func (s *scanner) escaped() (text string) {
	end := 0
	for ; end < len(s.rest) && s.rest[end] != '"'; end++ {
		if s.rest[end] == '\\' {
			end++
		}
	}
	if end >= len(s.rest) || json.Unmarshal([]byte(`"`+s.rest[:end]+`"`), &text) != nil {
		s.failed = true
		return ""
	}
	s.rest = s.rest[end+1:]
	return text
}

// item reads an item as a document.
func (s *scanner) item() docstore.Doc {
	doc := make(docstore.Doc, strings.Count(s.rest, `":{"`))
	s.object(func(name string) bool {
		s.size += len(name)
		v := s.attribute()
		switch name {
		case attrPartition, attrSort, attrMark, attrKeep, attrDue:
		default:
			doc[name] = v
		}
		return true
	})
	return doc
}

// attribute reads a value: {"S":"text"}.
func (s *scanner) attribute() (v docstore.Value) {
	s.expect('{')
	switch s.text() {
	case "S":
		s.expect(':')
		text := s.text()
		s.size += len(text)
		v = docstore.String(text)
	case "N":
		s.expect(':')
		text := s.text()
		s.size += sizeOfNumber(text)
		n, ok := whole(text)
		s.failed = s.failed || !ok
		v = docstore.Int(n)
	case "BOOL":
		s.expect(':')
		s.size++
		v = docstore.Bool(s.truth())
	case "B":
		s.expect(':')
		b, err := base64.StdEncoding.DecodeString(s.text())
		s.failed = s.failed || err != nil || len(b) > docstore.MaxBytes
		s.size += len(b)
		v = docstore.Bytes(b)
	case "M":
		s.expect(':')
		m := docstore.Map{}
		s.size += sizeOfMap
		s.object(func(name string) bool {
			s.expect('{')
			if s.text() != "S" {
				return false
			}
			s.expect(':')
			m[name] = s.text()
			s.size += sizeOfEntry + len(name) + len(m[name])
			s.expect('}')
			return true
		})
		v = m
	default: // a list, a set, null: the SDK reads it
		s.failed = true
	}
	s.expect('}')
	return v
}

func (s *scanner) truth() bool {
	s.space()
	if rest, ok := strings.CutPrefix(s.rest, "true"); ok {
		s.rest = rest
		return true
	}
	rest, ok := strings.CutPrefix(s.rest, "false")
	s.rest, s.failed = rest, s.failed || !ok
	return false
}
