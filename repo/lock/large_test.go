package lock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// size fails the test if the document of the lock is larger than any store takes, as DynamoDB counts: the names of the
// fields and their values, 400 KB in all.
func (s *stage) size() {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	const most, ofNumber, ofEntry = 400 << 10, 21, 4
	n := 0
	for name, v := range r.Docs[0] {
		n += len(name)
		switch v := v.(type) {
		case docstore.String:
			n += len(v)
		case docstore.Bytes:
			n += len(v)
		case docstore.Map:
			for name, value := range v {
				n += ofEntry + len(name) + len(value)
			}
		default:
			n += ofNumber
		}
	}
	if n > most {
		s.Fatalf("the document has %d bytes, %d at most", n, most)
	}
}

// TestLargeLinesAreBounded: those who wait in line share what a document may take with those who hold the lock, and all
// of them fit when the lock is handed over to them at once.
func TestLargeLinesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		first Acquire // holds the lock while the others come
		mode  Mode    // of those
	}{
		"readers behind a writer": {try("first", Exclusive), Shared},
		"writers behind a reader": {try("first", Shared), Exclusive},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			labels := map[string]string{}
			for i := range MaxMetadata {
				labels[strings.Repeat("k", MaxMetadataKeyBytes-2)+fmt.Sprintf("%02d", i)] = strings.Repeat("x",
					MaxMetadataValueBytes)
			}
			first := s.send(c.first)
			var line []Acquire
			for {
				a := wait(strings.Repeat("o", MaxOwnerBytes), c.mode)
				a.RequestID, a.Metadata = suffix(int64(len(line)+1)), labels
				o := s.send(a)
				s.size()
				if o.Code == QueueFull && strings.Contains(o.Detail, "metadata") && len(line) > 5 && len(line) < 10 {
					break
				}
				if o.Code != Held || o.Position != int64(len(line)+1) {
					t.Fatalf("%d: %s, place %d, %s", len(line), o.Code, o.Position, o.Detail)
				}
				line = append(line, a)
			}
			s.gets(Release{ID: subject, Owner: "first", Token: first.Lease.Token, RequestID: "e"}, OK, 2)
			s.size()
			for i, a := range line {
				o := s.send(a)
				if s.size(); o.Code != OK {
					t.Fatalf("%d after the hand-over: %s, place %d, %s", i, o.Code, o.Position, o.Detail)
				}
				if c.mode == Exclusive {
					s.send(Release{ID: subject, Owner: a.Owner, Token: o.Lease.Token, RequestID: "e"})
				}
			}
		})
	}
}

// TestAsManyAsThereCanBe: with the longest names and without metadata, a lock has all holders that it can have, and all
// that can wait in line.
func TestAsManyAsThereCanBe(t *testing.T) {
	s := newStage(t)
	owner := func(n int) string { return strings.Repeat("o", MaxOwnerBytes-4) + fmt.Sprintf("%04d", n) }
	request := func(n int) string { return strings.Repeat("r", MaxRequestIDBytes-6) + fmt.Sprintf("%06d", n) }
	for n := range MaxHolders {
		a := try(owner(n), Shared)
		a.RequestID, a.TTLSeconds = request(n), MaxTTLSeconds
		o := s.send(a)
		if o.Code != OK {
			t.Fatalf("%d: %+v", n, o)
		}
		s.send(Renew{ID: subject, Owner: a.Owner, Token: o.Lease.Token, RequestID: request(1000), TTLSeconds: MaxTTLSeconds})
	}
	for n := range MaxWaiting {
		a := wait(owner(n), Exclusive)
		a.RequestID = request(5000 + n)
		if o := s.send(a); o.Code != Held || o.Position != int64(n+1) {
			t.Fatalf("%d: %+v", n, o)
		}
	}
	s.size()
}
