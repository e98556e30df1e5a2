package analysis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Shape is what kinds of documents with the rule of the gate differ in. That of an analysis belongs to the user;
// package runs has another.
type Shape struct {
	Kind        string // of the documents
	Thing       string // what a text calls that which runs once: "analysis"
	IDField     string // what callers call its ID: "analysis_id"
	ExpiryField string // the field that says when the lock ends: "lockExpiresAt"

	// Made says that the first acquire makes the document, see [Acquire].Create. One without a token remembers requests
	// that were given up, and nothing else: what it is about does not exist.
	Made bool

	// KeepSeconds is how long a document is kept whose commands say nothing of it, MaxKeepSeconds how long the commands of
	// one may say. 0 keeps documents for ever.
	KeepSeconds, MaxKeepSeconds int64
}

// analyses is the shape of analyses.
var analyses = &Shape{Kind: Kind, Thing: "analysis", IDField: "analysis_id", ExpiryField: ExpiryField}

// Document is the document of one analysis, or of something else that runs once.
type Document struct {
	*Shape

	Tenant, ID string

	// KeepSeconds is how long the document is kept after its lock has ended, as the command says; 0 says nothing: what an
	// earlier command said stays.
	KeepSeconds int64
}

// document is that of an analysis.
func (id ID) document() Document { return Document{Shape: analyses, ID: string(id)} }

// Key is where the document is.
func (d Document) Key() docstore.Key { return docstore.Key{Kind: d.Kind, Tenant: d.Tenant, ID: d.ID} }

// Validate reports whether the ID can name a document. The error is a [field.Error].
func (d Document) Validate() error {
	if strings.ContainsRune(d.ID, '/') || d.ID == "." || d.ID == ".." {
		return field.Errorf(d.IDField, "cannot be %q: it is the name of one document, without %q", d.ID, "/")
	}
	return field.Text(d.IDField, d.ID, MaxIDBytes)
}

// Get reads the document and the store's time: one strongly consistent read.
func (d Document) Get(ctx context.Context, store docstore.Store) (State, time.Time, error) {
	if err := d.Validate(); err != nil {
		return State{}, time.Time{}, err
	}
	r, err := store.Get(ctx, d.Key())
	if err != nil {
		return State{}, time.Time{}, fmt.Errorf("%s: %w", d.Key(), err)
	}
	s, err := d.State(r.Docs[0])
	return s.At(r.At), r.At, err
}

// State reads the document; nil is the zero State. The error is [docstore.ErrDamaged] and names the field.
//
// null counts as a missing field. Other writers may have written anything into the owner and the expiry, and it is
// taken as it is. What only the gate writes, and a status, must be readable: what may be finished must not be run
// again.
func (d Document) State(found docstore.Doc) (State, error) {
	if found == nil {
		return State{}, nil
	}
	s := State{
		Exists: !d.Made || found[fToken] != nil,
		Status: Status(text(found, fStatus)), Owner: text(found, fOwner), Expiry: expiry(found[d.ExpiryField]),
		Requeued: text(found, fRequeuedAt), RequeueID: text(found, fRequeueID),
		Result: text(found, fResult), Reason: text(found, fReason), Finished: text(found, fFinishedAt),
		nullStatus: null(found[fStatus]),
		Retried:    Retried{At: text(found, fRetriedAt), By: text(found, fRetriedBy), Reason: text(found, fRetryReason)},
	}
	s.Due, _ = docstore.ParseTime(docstore.String(text(found, fDueAt)))
	s.Begun, _ = docstore.ParseTime(docstore.String(text(found, fBegunAt)))
	s.Heartbeat, _ = docstore.ParseTime(docstore.String(text(found, fHeartbeatAt)))
	if found[fFingerprint] != nil {
		s.Fingerprint = unreadable
		if v, ok := found[fFingerprint].(docstore.String); ok && v != "" {
			s.Fingerprint = string(v)
		}
	}
	if failed, ok := found[fFailed].(docstore.Int); ok {
		s.Failed = int64(failed)
	}
	if _, ok := found[fOwner].(docstore.String); !ok && found[fOwner] != nil && !null(found[fOwner]) {
		s.Owner, s.strangeOwner = unreadable, true
	}
	if !isText(found[fStatus]) && !s.nullStatus {
		return State{}, d.damaged(fStatus, "is not text: it must say whether the "+d.Thing+" is finished")
	}
	for i := range rule.Remembered {
		for _, f := range []string{fRequests[i], fRetries[i]} {
			if !isText(found[f]) {
				return State{}, d.damaged(f, "is not text: remove it")
			}
		}
		s.Requests[i], s.Retries[i] = text(found, fRequests[i]), text(found, fRetries[i])
	}
	for i, n := range []*int64{&s.Token, &s.Runs, &s.Failures} {
		v, ok := found[counts[i]].(docstore.Int)
		if v < 0 || !ok && found[counts[i]] != nil {
			return State{}, d.damaged(counts[i], "is not a whole number from 0 on")
		}
		*n = int64(v)
	}
	if d.Shape.KeepSeconds > 0 {
		return s, d.readKept(&s, found)
	}
	return s, nil
}

// damaged is the error of a field that cannot be read.
func (d Document) damaged(field, why string) error {
	return fmt.Errorf("%w: %s: field %q %s", docstore.ErrDamaged, d.Key(), field, why)
}
