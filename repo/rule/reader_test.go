package rule_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestReader: a field has its type or is missing; the first that is something else is the error, with its document.
func TestReader(t *testing.T) {
	key := docstore.Key{Kind: "k", Tenant: "acme", ID: "a"}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	doc := docstore.Doc{
		"text": docstore.String("x"), "number": docstore.Int(7), "flag": docstore.Bool(true), "table": docstore.Map{"a": "b"},
		"bytes": docstore.Bytes("\x00"), "empty": docstore.Bytes(""), "time": docstore.FormatTime(at),
	}
	type fields struct {
		text   string
		number int64
		flag   bool
		table  map[string]string
		bytes  []byte
		time   time.Time
	}
	for name, c := range map[string]struct {
		doc  docstore.Doc
		want fields
	}{
		"all":         {doc, fields{"x", 7, true, map[string]string{"a": "b"}, []byte{0}, at}},
		"none":        {docstore.Doc{}, fields{}},
		"no document": {nil, fields{}},
	} {
		r := rule.Read(key, c.doc)
		got := fields{r.Text("text"), r.Number("number"), r.Flag("flag"), r.Table("table"), r.Bytes("bytes"), r.Time("time")}
		if !reflect.DeepEqual(got, c.want) || r.Bytes("empty") != nil || r.Err() != nil {
			t.Errorf("%s: %+v, %v; want %+v", name, got, r.Err(), c.want)
		}
	}
	for field, read := range map[string]func(*rule.Reader){
		"number": func(r *rule.Reader) { r.Text("number") },
		"text":   func(r *rule.Reader) { r.Number("text") },
		"flag":   func(r *rule.Reader) { r.Number("flag") },
		"table":  func(r *rule.Reader) { r.Text("table") },
		"bytes":  func(r *rule.Reader) { r.Text("bytes") },
		"time":   func(r *rule.Reader) { r.Bytes("time") },
	} {
		r := rule.Read(key, doc)
		read(&r)
		r.Fail("later", "the first")
		if err := r.Err(); !errors.Is(err, docstore.ErrDamaged) || !contains(err, field) || !contains(err, key.String()) ||
			contains(err, "later") {
			t.Errorf("%s: %v", field, err)
		}
	}
	r := rule.Read(key, doc)
	if at := r.Time("text"); !at.IsZero() || !contains(r.Err(), "a time") {
		t.Errorf("a time that is none: %v, %v", at, r.Err())
	}
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
