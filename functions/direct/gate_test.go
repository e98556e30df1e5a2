package direct_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// thing is what the gate guards, a run or an analysis, and how one asks for it.
type thing struct {
	key    docstore.Key
	expiry string // the field that its document has
	local  func(docstore.Store, *analysis.Options) once.Gate
	remote func(*client.Client) once.Gate
	read   func(ctx context.Context, c *client.Client) error // one, and all of them
	others *regexp.Regexp                                    // what only texts about the other thing say
}

var things = map[string]thing{
	"run": {
		key: docstore.Key{Kind: runs.Kind, Tenant: "acme", ID: "x1"}, expiry: "expiresAt",
		local: func(s docstore.Store, o *analysis.Options) once.Gate {
			return direct.Runs(runs.New(s, &runs.Options{Options: *o}), "acme", 0)
		},
		remote: func(c *client.Client) once.Gate { return c.Runs("acme") },
		read: func(ctx context.Context, c *client.Client) error {
			_, one := c.Runs("acme").Get(ctx, "x1")
			_, all := c.Runs("acme").List(ctx, client.RunQuery{})
			return errors.Join(one, all)
		},
		others: regexp.MustCompile(`(?i)analys|lockExpiresAt|lockRetr|lockRequeue`),
	},
	"analysis": {
		key: docstore.Key{Kind: analysis.Kind, ID: "x1"}, expiry: "lockExpiresAt",
		local:  func(s docstore.Store, o *analysis.Options) once.Gate { return direct.Analyses(analysis.New(s, o)) },
		remote: func(c *client.Client) once.Gate { return c.Analyses() },
		read: func(ctx context.Context, c *client.Client) error {
			_, one := c.Analyses().Get(ctx, "x1")
			_, all := c.Analyses().List(ctx, client.AnalysisQuery{})
			return errors.Join(one, all)
		},
		others: regexp.MustCompile(`\b(the run|such run|run_id|runs/|expiresAt)\b`),
	},
}

// documents are the states in which something is refused, and those that no command can read. "expiry" is the field
// with the time.
func documents(at time.Time) map[string]docstore.Doc {
	held := docstore.Doc{
		"status": docstore.String("PENDING"), "lockOwner": docstore.String("ann"), "lockToken": docstore.Int(7),
		"lockRuns": docstore.Int(1), "lockFingerprint": docstore.String("f1"),
		"expiry": docstore.FormatTime(at.Add(time.Minute)),
	}
	with := func(field string, v docstore.Value) docstore.Doc {
		d := maps.Clone(held)
		if d[field] = v; v == nil {
			delete(d, field)
		}
		return d
	}
	all := map[string]docstore.Doc{
		"none":                      nil,
		"held":                      held,
		"held by another":           with("lockOwner", docstore.String("bob")),
		"under a later token":       with("lockToken", docstore.Int(8)),
		"under an earlier token":    with("lockToken", docstore.Int(6)),
		"expired":                   with("expiry", docstore.FormatTime(at.Add(-time.Minute))),
		"of something else":         with("lockFingerprint", docstore.String("f2")),
		"released":                  with("lockOwner", nil),
		"READY":                     with("status", docstore.String("READY")),
		"FAILED":                    with("status", docstore.String("FAILED")),
		"given up":                  with("lockRuns", docstore.Int(100)),
		"a time without an offset":  with("expiry", docstore.String("2026-01-01T00:00:00")),
		"no time":                   with("expiry", docstore.String("soon")),
		"a time that is a number":   with("expiry", docstore.Int(1)),
		"a time that is a document": with("expiry", docstore.Map{"seconds": "1"}),
		"an owner that is no text":  with("lockOwner", docstore.Int(1)),
		"a status that is no text":  with("status", docstore.Int(1)),
		"a token that is no number": with("lockToken", docstore.String("7")),
		"runs that are no number":   with("lockRuns", docstore.String("7")),
		"negative failures":         with("lockFailures", docstore.Int(-1)),
		"a request that is no text": with("lockRequest1", docstore.Int(1)),
		"READY, and no one holds it": {
			"status": docstore.String("READY"), "lockToken": docstore.Int(7), "result": docstore.String("other"),
		},
	}
	all["given up"]["expiry"] = all["expired"]["expiry"]
	return all
}

// asked are the commands that are sent to a thing as it is.
var asked = map[string]func(context.Context, once.Gate) error{
	"acquire": func(ctx context.Context, gate once.Gate) error {
		_, err := gate.Acquire(ctx, once.Acquire{
			RunID: "x1", Owner: "ann", RequestID: "r1", TTL: time.Minute, Fingerprint: "f1",
		})
		return err
	},
	"acquire with another lifetime, and after the release": func(ctx context.Context, gate once.Gate) error {
		a := once.Acquire{RunID: "x1", Owner: "ann", RequestID: "r1", TTL: time.Minute}
		g, err := gate.Acquire(ctx, a)
		if err != nil || !g.Acquired {
			return err
		}
		a.TTL *= 2
		_, other := gate.Acquire(ctx, a)
		if err := gate.Release(ctx, g.Lock, ""); err != nil {
			return err
		}
		a.TTL /= 2
		_, late := gate.Acquire(ctx, a)
		return errors.Join(other, late)
	},
	"give up": func(ctx context.Context, gate once.Gate) error {
		_, err := gate.Acquire(ctx, once.Acquire{
			RunID: "x1", Owner: "ann", RequestID: "r1", TTL: time.Minute, GiveUp: true,
		})
		return err
	},
	"refresh": func(ctx context.Context, gate once.Gate) error {
		_, err := gate.Refresh(ctx, annsLock, time.Minute)
		return err
	},
	"release":         func(ctx context.Context, gate once.Gate) error { return gate.Release(ctx, annsLock, "") },
	"release, failed": func(ctx context.Context, gate once.Gate) error { return gate.Release(ctx, annsLock, "no disk") },
	"finish": func(ctx context.Context, gate once.Gate) error {
		return gate.Finish(ctx, annsLock, once.Result{Result: "done"})
	},
	"finish, failed": func(ctx context.Context, gate once.Gate) error {
		return gate.Finish(ctx, annsLock, once.Result{Failed: true, Reason: "no disk"})
	},
	"a name with a slash": func(ctx context.Context, gate once.Gate) error {
		return gate.Release(ctx, once.Lock{RunID: "a/b", Owner: "ann", Token: 7}, "")
	},
}

var annsLock = once.Lock{RunID: "x1", Owner: "ann", Token: 7}

// TestGateSpeaksOfItsThing: no refusal and no report of damage of a run speaks of an analysis or names a field that the
// document of a run does not have, nor the other way round; over HTTP, in the server's log and on a store.
func TestGateSpeaksOfItsThing(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, thing := range things {
		said := map[string]string{} // all texts, by where they were said
		for state, d := range documents(at) {
			for what, do := range asked {
				err := do(t.Context(), thing.local(thing.store(t, d, at), frozen(at)))
				said["on a store"] += fmt.Sprintf("%s, %s: %v\n", state, what, err)
				over, log := thing.serve(t, d, at)
				said["over HTTP"] += fmt.Sprintf("%s, %s: %v\n", state, what, do(t.Context(), thing.remote(over)))
				said["in the log"] += log.String()
			}
			over, log := thing.serve(t, d, at)
			said["over HTTP"] += fmt.Sprintf("%s, get and list: %v\n", state, thing.read(t.Context(), over))
			said["in the log"] += log.String()
		}
		for where, texts := range said {
			for text := range strings.Lines(texts) {
				if other := thing.others.FindString(text); other != "" {
					t.Errorf("%s %s: %q in %s", name, where, other, text)
				}
			}
			for _, code := range []contracts.Code{
				contracts.CodeNotFound, contracts.CodeLeaseLost, contracts.CodeLeaseReleased, contracts.CodeNotOwner,
				contracts.CodeLeaseExpired, contracts.CodeAlreadyFinished, contracts.CodeRunDiffers, contracts.CodeRequestIDReused,
				contracts.CodeLockUnreadable, contracts.CodeDocumentDamaged, contracts.CodeInvalidArgument,
			} {
				if !strings.Contains(texts, string(code)) {
					t.Errorf("%s %s: nothing was refused with %s", name, where, code)
				}
			}
		}
	}
}

// TestGateGivesUp: on a store and over HTTP, whether the request has come before, comes afterwards, or both.
func TestGateGivesUp(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	free := docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(6)}
	for name, thing := range things {
		over, _ := thing.serve(t, free, at)
		for where, gate := range map[string]once.Gate{
			"on a store": thing.local(thing.store(t, free, at), frozen(at)), "over HTTP": thing.remote(over),
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				send := func(owner, request string, giveUp bool) (once.Grant, error) {
					return gate.Acquire(t.Context(), once.Acquire{
						RunID: "x1", Owner: owner, RequestID: request, TTL: time.Minute, GiveUp: giveUp,
					})
				}
				reused := func(request string) {
					t.Helper()
					if g, err := send("ann", request, false); !errors.Is(err, contracts.CodeRequestIDReused) {
						t.Errorf("a copy of %s gets %+v, %v", request, g, err)
					}
				}
				given := func(request string) {
					t.Helper()
					for range 2 {
						if g, err := send("ann", request, true); err != nil || g != (once.Grant{}) {
							t.Fatalf("given up: %+v, %v", g, err)
						}
					}
				}
				given("r1")
				reused("r1")
				if g, err := send("ann", "r2", false); err != nil || !g.Acquired || g.Runs != 1 {
					t.Fatalf("%+v, %v", g, err)
				}
				given("r2")
				reused("r2")
				if g, err := send("bob", "r3", false); err != nil || !g.Acquired || g.Runs != 1 {
					t.Fatalf("the next: %+v, %v", g, err)
				}
				given("r4")
				if g, err := send("bob", "r3", false); err != nil || !g.Acquired {
					t.Errorf("the holder: %+v, %v", g, err)
				}
				other := once.Acquire{RunID: "x1", Owner: "bob", RequestID: "r3", TTL: 2 * time.Minute, GiveUp: true}
				if g, err := gate.Acquire(t.Context(), other); !errors.Is(err, contracts.CodeRequestIDReused) {
					t.Errorf("with another lifetime: %+v, %v", g, err)
				}
			})
		}
		// What is not there is not made.
		nothing, _ := thing.serve(t, nil, at)
		if g, err := thing.remote(nothing).Acquire(t.Context(), once.Acquire{
			RunID: "x1", Owner: "ann", RequestID: "r1", TTL: time.Minute, GiveUp: true,
		}); err != nil || g != (once.Grant{}) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
		if err := thing.read(t.Context(), nothing); !errors.Is(err, contracts.CodeNotFound) {
			t.Errorf("%s was made: %v", name, err)
		}
	}
}

// TestAcquiresOfTheGateEnd: each acquire on a store has an end, 2 s after that of its context.
func TestAcquiresOfTheGateEnd(t *testing.T) {
	for name, thing := range things {
		t.Run(name, func(t *testing.T) {
			at := time.Now().UTC().Truncate(time.Millisecond)
			free := docstore.Doc{"status": docstore.String("PENDING"), "lockToken": docstore.Int(6)}
			held := &holding{Store: thing.store(t, free, at)}
			gate := thing.local(held, frozen(at))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if g, err := gate.Acquire(ctx, once.Acquire{RunID: "x1", Owner: "ann", RequestID: "r1",
				TTL: time.Minute}); err != nil || !g.Acquired {
				t.Fatalf("%+v, %v", g, err)
			}
			if left := held.end.Sub(at); left < 10*time.Second || left > 13*time.Second {
				t.Errorf("the end is %v ahead", left)
			}
		})
	}
}

// holding is a store that shows the end of what is written.
type holding struct {
	docstore.Store

	end time.Time
}

func (h *holding) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	h.end = writes[0].Until
	return h.Store.Write(ctx, writes...)
}

func frozen(at time.Time) *analysis.Options {
	return &analysis.Options{Now: func() time.Time { return at }}
}

// serve is the client of a server with the document alone, and the log of the server.
func (g thing) serve(t *testing.T, d docstore.Doc, at time.Time) (*client.Client, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	handler := contracttest.Handler(t, httpapi.New(g.store(t, d, at), httpapi.Development{}, &httpapi.Options{
		Now: frozen(at).Now, Log: slog.New(slog.NewTextHandler(log, nil)),
	}))
	c, err := client.New("http://localhost", &client.Options{HTTP: &http.Client{Transport: handled{handler}}})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// handled sends requests to a handler without a network.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// store is one with the document alone.
func (g thing) store(t *testing.T, d docstore.Doc, at time.Time) docstore.Store {
	t.Helper()
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: frozen(at).Now})
	if d == nil {
		return store
	}
	set := maps.Clone(d)
	if end, ok := set["expiry"]; ok {
		delete(set, "expiry")
		set[g.expiry] = end
	}
	if _, err := store.Write(t.Context(), docstore.Write{Key: g.key, Set: set}); err != nil {
		t.Fatal(err)
	}
	return store
}
