package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// headerAnswer is a header of the response to a hop: what became of that, and what proves that a member says so.
const headerAnswer = "Leasehold-Answer"

// What a member answers to a hop. The last one proves nothing.
const (
	answerServed  = "served"
	answerNotHere = "not-here"
	answerRefused = "refused" // no member has signed the hop, as far as this one knows
)

// ErrNotProven is the error of [Forwarded] when a response does not prove that a member of the cluster gave it: another
// process has its address, its [HandlerOptions.Secret] is another one, or something in front of it responds.
var ErrNotProven = errors.New("the response does not prove that a member of the cluster gave it")

const (
	// provenFor is for how long after a response of a member requests are sent to its address without asking first.
	provenFor = 2 * time.Second

	// askWithin bounds the question whether it is a member that is at an address.
	askWithin = 2 * time.Second
)

// answerTo is an answer to a hop, with its proof: who knows the secret can make it, and for no other hop. Without a
// secret the connection proves who is there, and the answer shows that it understood the hop.
func (h *Handler) answerTo(p *hop, verdict string) string {
	if len(h.o.Secret) == 0 {
		return verdict + "." + p.Nonce
	}
	mac := hmac.New(sha256.New, h.o.Secret)
	fmt.Fprintf(mac, "leasehold answer 1\n%q\n%q\n", verdict, p.payload)
	return verdict + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verdict is what a member answers by the header of a response; empty if no member has.
func (h *Handler) verdict(p *hop, header http.Header) string {
	got := []byte(header.Get(headerAnswer))
	for _, v := range []string{answerServed, answerNotHere} {
		if hmac.Equal(got, []byte(h.answerTo(p, v))) {
			return v
		}
	}
	return ""
}

// judge is the error of a response that does not count: of a member that did not serve the hop, or of no member. One
// that does proves its address for some time.
func (h *Handler) judge(t *trial, res *http.Response) error {
	verdict := h.verdict(&t.hop, res.Header)
	switch verdict {
	case answerServed, answerNotHere:
		h.mu.Lock()
		h.proofs[t.place()] = time.Now()
		h.mu.Unlock()
		if verdict == answerServed {
			res.Header.Del(headerAnswer)
			return nil
		}
	}
	said := res.Header.Get(headerAnswer)
	_, _ = io.CopyN(io.Discard, res.Body, 512) // so that the connection can be used again
	_ = res.Body.Close()
	switch {
	case verdict == answerNotHere:
		return ErrNotServed
	case said == answerRefused:
		return fmt.Errorf("%w: %s at %s responds %d, and that it does not know this signature: HandlerOptions.Secret differs",
			ErrNotProven, t.hop.To, t.target.Host, res.StatusCode)
	default:
		return fmt.Errorf("%w: %s at %s responds %d: another process has its address, HandlerOptions.Secret differs, "+
			"or something in front of the handler there responds", ErrNotProven, t.hop.To, t.target.Host, res.StatusCode)
	}
}

// place is where a member is said to be.
type place struct {
	member      string
	incarnation int64
	address     string
}

func (t *trial) place() place { return place{t.hop.To, t.hop.Incarnation, t.target.String()} }

// question is one that several requests wait for: whether a member is at its address.
type question struct {
	done chan struct{}
	err  error
}

// prove makes sure that a member is where a request is to go, before anything of the request is sent there: if it has
// proven that lately, or does so now. Of several requests one asks. Where the connection proves it, nothing is asked.
func (h *Handler) prove(ctx context.Context, t *trial, r *http.Request) error {
	at := t.place()
	h.mu.Lock()
	if proven, ok := h.proofs[at]; len(h.o.Secret) == 0 || ok && time.Since(proven) < provenFor {
		h.mu.Unlock()
		return nil
	}
	q := h.questions[at]
	if q == nil {
		q = &question{done: make(chan struct{})}
		h.questions[at] = q
		go func() {
			defer close(q.done)
			q.err = h.ask(context.WithoutCancel(ctx), t, r.URL.EscapedPath())
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.questions, at)
		}()
	}
	h.mu.Unlock()
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask asks whether a member is at its address. The question has nothing of a caller's request but the path, by which it
// finds the handler there.
func (h *Handler) ask(ctx context.Context, t *trial, path string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	ask := &trial{target: t.target, hop: hop{Ask: true, To: t.hop.To, Incarnation: t.hop.Incarnation,
		Cluster: t.hop.Cluster, From: t.hop.From, Nonce: rand.Text()}}
	if err := ask.hop.seal(); err != nil {
		return err
	}
	to := t.target.Scheme + "://" + t.target.Host + path
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, to, http.NoBody) //nolint:gosec // as members join
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "leasehold")
	h.signed(r, &ask.hop)
	res, err := h.o.Transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("asked whether it is there: %w", err)
	}
	return h.judge(ask, res)
}

// disprove makes the next request to a member's address ask first. What has not proven itself for long is forgotten.
func (h *Handler) disprove(at place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.proofs, at)
	for other, proven := range h.proofs {
		if time.Since(proven) >= provenFor {
			delete(h.proofs, other)
		}
	}
}

// RoundTrip sends a request to a member. Its error is ErrNotServed if that says that it did not serve it, and an
// ErrNotProven if no member has responded: nothing of such a response is used.
func (w through) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.o.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := w.judge(trialOf(r.Context()), res); err != nil {
		return nil, err
	}
	return res, nil
}

// through is the way to the members.
type through struct{ *Handler }

// firstLine is the connection of a request that came by way of another member, and was taken over: what its handler
// writes begins with a response, in which the proof is still missing.
type firstLine struct {
	net.Conn

	header string
	begun  chan struct{} // has room for who writes the first line
	line   []byte        // of it so far
}

func proving(conn net.Conn, answer string) *firstLine {
	return &firstLine{Conn: conn, header: headerAnswer + ": " + answer + "\r\n", begun: make(chan struct{}, 1)}
}

// NetConn returns the connection itself, as that of [crypto/tls.Conn] does.
func (c *firstLine) NetConn() net.Conn { return c.Conn }

// Write implements [net.Conn].
func (c *firstLine) Write(p []byte) (int, error) {
	c.begun <- struct{}{}
	defer func() { <-c.begun }()
	if c.header == "" {
		return c.Conn.Write(p)
	}
	c.line = append(c.line, p...)
	end := slices.Index(c.line, '\n') + 1
	if end == 0 && len(c.line) < 4096 {
		return len(p), nil
	}
	text := slices.Concat(c.line[:end], []byte(c.header), c.line[end:])
	c.header, c.line = "", nil
	if _, err := c.Conn.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
