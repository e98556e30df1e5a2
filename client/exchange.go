package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/bearer"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// waits are those before retries.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 10 * time.Second}

// call sends one request until there is a definite response, the tries are used up or the context ends. valid says what
// is wrong with a response, so that the JSON of another server, or what was meant for another request, is not taken for
// the response.
func call[T any](ctx context.Context, c *Client, method, path string, body any, valid func(T) error) (T, error) {
	got, _, err := exchanges(ctx, c, method, path, body, valid)
	return got, err
}

// ended says how the exchanges of one call ended.
type ended struct {
	begin   time.Time // before the request that the response is for
	unknown bool      // with an error: the server may have carried out the command
	lost    bool      // a try had no response: it may still be carried out, whatever was said to later ones
}

// limited is the body of a request that grants something: each of its tries has an end. Requests that have a member
// give_up are among them.
type limited struct {
	with    func(end string) any // the body with an end
	end     string               // that the caller has named
	givesUp bool                 // the request; then nothing is granted, and no end is needed
}

// body is the body of a try that begins now.
func (l limited) body(ctx context.Context, c *Client) any {
	if l.end == "" && !l.givesUp {
		return l.with(c.ends.End(ctx, c.http.Timeout))
	}
	return l.with(l.end)
}

func exchanges[T any](ctx context.Context, c *Client, method, path string, body any, valid func(T) error) (T, ended,
	error) {
	var (
		none T
		e    ended

		first lease.Meeting
	)
	end := c.callEnd(ctx)
	l, granting := body.(limited)
	var payload []byte
	for retry, corrected := 0, false; ; retry++ {
		trying, cancel := c.try(ctx, retry, end)
		if payload == nil || granting {
			var err error
			if granting {
				body = l.body(trying, c)
			}
			if payload, err = encode(body); err != nil {
				cancel()
				return none, e, err
			}
		}
		e.begin = time.Now()
		content, unknown, err := c.exchange(trying, method, path, payload, maxResponse,
			l.givesUp || method == http.MethodDelete)
		if err != nil && trying.Err() != nil && ctx.Err() == nil {
			err = silentError{err, time.Since(e.begin)}
		}
		cancel()
		if err == nil && l.givesUp && content == nil {
			return none, ended{}, nil
		}
		if err == nil && l.givesUp {
			err = lease.Invalid(c.name, errors.New("it has content, although the request gave up"))
			return none, ended{unknown: true}, err
		}
		if err == nil {
			got, err := decode(c, content, valid)
			e.unknown = err != nil
			return got, e, err
		}
		lost := unknown && !neverDone(err)
		e.lost = lost || e.lost && (!lease.Settles(err) || !lease.Final(err))
		e.unknown = lost || e.unknown && !lease.Settles(err)
		if granting && l.end == "" && c.ends.Refused(err, time.Since(e.begin)) && !corrected {
			corrected = true
			retry-- // it was no try: the end was wrong
			continue
		}
		wrong := first.Unmet(err)
		if u, ok := errors.AsType[*unmetError](err); ok {
			u.tries = int(first) // for those who call it again
		}
		after := contracts.RetryAfter(err)
		pause := max(waits.Delay(retry), after)
		if !unknown || ctx.Err() != nil || retry == c.tries-1 || wrong || after > waits.Max ||
			comesTooLate(ctx, end, pause) || backoff.Sleep(ctx, pause) != nil {
			return none, e, err
		}
	}
}

// callEnd is when a call ends: at its caller's deadline, or after what the server is asked to wait and 5 s more. The
// zero time of one whose caller tries again by itself, and bounds it.
func (c *Client) callEnd(ctx context.Context) time.Time {
	if c.tries == 1 {
		return time.Time{}
	}
	if end, bounded := ctx.Deadline(); bounded {
		return end
	}
	return time.Now().Add(c.wait + hold.CallTime)
}

// try is the time of a try within a call that ends at end.
func (c *Client) try(ctx context.Context, retry int, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, min(c.wait+hold.TryTime(retry), time.Until(end)))
}

// comesTooLate reports whether the call has ended after a pause of so long. That of a context ends with it.
func comesTooLate(ctx context.Context, end time.Time, pause time.Duration) bool {
	_, bounded := ctx.Deadline()
	return !bounded && !end.IsZero() && time.Until(end) <= pause
}

// silentError is the error of a try that had no response in its time. It is no end of the caller's context.
type silentError struct {
	err  error
	took time.Duration
}

func (e silentError) Error() string {
	return fmt.Sprintf("no response within %v: %v", e.took.Round(time.Millisecond), e.err)
}

// Unwrap is that of net/http.
func (e silentError) Unwrap() error { return e.err }

// neverDone reports whether the request cannot have been carried out: there was no connection for it, or no room.
func neverDone(err error) bool {
	return lease.NeverSent(err) || errors.Is(err, contracts.CodeOverloaded)
}

// encode makes a request's body; nil for none.
func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return payload, nil
}

// decode reads the body of a response.
func decode[T any](c *Client, content []byte, valid func(T) error) (T, error) {
	var none, got T
	if err := json.Unmarshal(content, &got); err != nil {
		return none, lease.Invalid(c.name, err)
	}
	if err := valid(got); err != nil {
		return none, lease.Invalid(c.name, err)
	}
	return got, nil
}

// complete is the validity of a response that only must have its required members.
func complete[T any](has func(T) bool) func(T) error {
	return func(got T) error {
		if !has(got) {
			return lease.ErrMissing
		}
		return nil
	}
}

// maxResponse bounds the bytes of a response: a page of 1000 locks with all their metadata, each byte escaped, stays
// below.
const maxResponse = 128 << 20

// exchange sends a request once and returns the body of a response that says OK, of which it reads the first bytes,
// most at most; nil if it has none, which only some requests may be responded to. With an error, unknown reports that
// the server may have carried out the request.
func (c *Client) exchange(ctx context.Context, method, path string, payload []byte, most int64, none bool) (
	content []byte, unknown bool, err error) {
	//nolint:bodyclose // send has read and closed it
	w, content, unknown, err := c.send(ctx, method, path, payload, most, nil)
	if err != nil {
		return nil, unknown, c.meet(err, lease.NeverSent(err))
	}
	switch mediaType := mediaType(w.Header); {
	case w.StatusCode == http.StatusOK && mediaType == "application/json":
		return content, false, c.meet(nil, false)
	case none && len(content) == 0 && (w.StatusCode == http.StatusOK ||
		w.StatusCode == http.StatusNoContent):
		return nil, false, c.meet(nil, false)
	}
	unknown, err = c.rejection(w, content)
	// The page of a proxy whose server is away says so in its status.
	return nil, unknown, c.meet(err, w.StatusCode < http.StatusInternalServerError && !passes(w.StatusCode))
}

// meet takes note of a server that answers. Before that it marks an error which says that the address may be wrong.
func (c *Client) meet(err error, wrong bool) error {
	switch _, answers := errors.AsType[*contracts.Error](err); {
	case c.met.Load():
	case err == nil || answers:
		c.met.Store(true)
	case wrong:
		return &unmetError{err, 1}
	}
	return err
}

// unmetError is an error of a request to a server that has never answered, however often it was sent: see
// [lease.Meeting].
type unmetError struct {
	error

	tries int
}

// Unmet is for [lease.Meeting].
func (e *unmetError) Unmet() int { return e.tries }

// Unwrap is the error without the mark.
func (e *unmetError) Unwrap() error { return e.error }

// mediaType is what a response says that its body is.
func mediaType(h http.Header) string {
	content := h.Get("Content-Type")
	if content == "application/json" { // as our servers say
		return content
	}
	content, _, _ = mime.ParseMediaType(content)
	return content
}

// changesURL reports whether a segment of a path is ".", ".." or "/", escaped: on the way it may become another path.
func changesURL(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || segment == "%2F" {
			return true
		}
	}
	return false
}

// pathHeader is the header that has the path of a request as it was sent.
const pathHeader = "Leasehold-Path"

// Rejected reports, in a call of [Options.Token], whether the server has just refused the token that was returned for
// the same request. A source that keeps tokens gets a fresh one then.
func Rejected(ctx context.Context) bool { return bearer.Rejected(ctx) }

// send sends a request once, with these header fields if there are any, and returns the response and the first bytes of
// its body. If the server rejects its token, and there is another one by now, it sends the same request with that. One
// whose token did not come in time may have it at the next try.
func (c *Client) send(
	ctx context.Context, method, path string, payload []byte, most int64, header http.Header,
) (w *http.Response, content []byte, unknown bool, err error) {
	if c.token == nil { // without what a closure costs
		return c.sendAs(ctx, "", method, path, payload, most, header)
	}
	err = c.token.Send(ctx, func(token string) (rejected bool, err error) {
		//nolint:bodyclose // sendAs has read and closed it
		w, content, unknown, err = c.sendAs(ctx, token, method, path, payload, most, header)
		return err == nil && w.StatusCode == http.StatusUnauthorized, err
	})
	if e, ok := errors.AsType[*bearer.Error](err); ok {
		unknown = e.Ended
	}
	return w, content, unknown, err
}

// sendAs sends a request once, with a token if there is one.
func (c *Client) sendAs(
	ctx context.Context, token, method, path string, payload []byte, most int64, header http.Header,
) (w *http.Response, content []byte, unknown bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return nil, nil, false, err
	}
	if header != nil {
		r.Header = header
	}
	plain, _, _ := strings.Cut(path, "?")
	if changesURL(plain) {
		return nil, nil, false, contracts.Errorf(contracts.CodeInvalidArgument,
			`a name in a path cannot be ".", ".." or "/": the URL would be that of something else`)
	}
	if strings.ContainsAny(plain, "%+") { // what resolves escapes on the way must not make another name of one
		r.Header.Set(pathHeader, plain)
	}
	if payload != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != nil {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	begin := time.Now()
	w, err = c.http.Do(r)
	if err != nil {
		if errors.Is(err, http.ErrSchemeMismatch) {
			err = schemeError{c.name + " is a server without TLS: its address begins with http://"}
		}
		c.renewConnections(err, begin)
		_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return nil, nil, !distrusted && !contracts.Final(err), lease.NoResponse(err)
	}
	c.learn(w, time.Since(begin))
	defer w.Body.Close() //nolint:errcheck // the body was read to its end, or is not wanted
	content, err = io.ReadAll(io.LimitReader(w.Body, most))
	if err != nil {
		c.renewConnections(err, begin)
		return nil, nil, true, lease.NoResponse(fmt.Errorf("read the response: %w", err))
	}
	return w, content, false, nil
}

// renewConnections has the next try make a new connection, if one that was sent then had no response for so long that
// its connection may be dead: then those that were idle meanwhile are so as well.
func (c *Client) renewConnections(err error, sent time.Time) {
	if time.Since(sent) < silentTime || !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		return
	}
	if n, ok := c.http.Transport.(*network); ok {
		n.renew(sent)
		return
	}
	c.http.CloseIdleConnections()
}

// silentTime is how long a request had no response when its connection may be dead. The last try of a lease is shorter.
const silentTime = time.Second

// schemeError is the error of an address that has https:// for a server without TLS, or http:// for one with it.
type schemeError struct{ text string }

func (e schemeError) Error() string { return e.text }

// Final is for [contracts.Final]: no wait makes the address right.
func (e schemeError) Final() bool { return true }

// Unwrap is that of net/http.
func (e schemeError) Unwrap() error { return http.ErrSchemeMismatch }

// wantsTLS reports whether a response says that the request should have come by TLS, in the words of net/http or nginx.
func wantsTLS(w *http.Response, content []byte) bool {
	return w.StatusCode == http.StatusBadRequest && (bytes.Contains(content, []byte("HTTP request to an HTTPS server")) ||
		bytes.Contains(content, []byte("plain HTTP request was sent to HTTPS port")))
}

// learn takes the server's time from a response that took so long. A page that a proxy has made has the proxy's.
func (c *Client) learn(w *http.Response, took time.Duration) {
	switch mediaType(w.Header) {
	case "application/json", "application/problem+json":
	default:
		if w.StatusCode != http.StatusNoContent && w.StatusCode != http.StatusNotModified {
			return
		}
	}
	if date, err := http.ParseTime(w.Header.Get("Date")); err == nil {
		c.ends.Learn(date, took)
	}
}

// rejection is the error of a response that does not say OK.
func (c *Client) rejection(w *http.Response, content []byte) (unknown bool, err error) {
	mediaType := mediaType(w.Header)
	switch {
	case mediaType == "application/problem+json":
		err := c.problem(w, content)
		e, ok := errors.AsType[*contracts.Error](err)
		return ok && e.Retryable && w.StatusCode >= http.StatusInternalServerError, err
	case w.StatusCode >= 300 && w.StatusCode < 400:
		return false, lease.NotLeasehold(fmt.Errorf(
			"%s responded %s: redirects are not followed, because they could lead away from TLS; use the URL of the server itself",
			c.name, w.Status))
	case wantsTLS(w, content):
		return false, lease.NotLeasehold(schemeError{c.name + " is a server with TLS: its address begins with https://"})
	default:
		// A proxy in between, or another server altogether.
		err := lease.NotLeasehold(fmt.Errorf("%s responded %s with content type %q, which is not Leasehold", c.name, w.Status,
			mediaType))
		return w.StatusCode >= http.StatusInternalServerError, later{err, retryAfter(w.Header)}
	}
}

// problem reads a problem document. If it does not say whether the same request may succeed later, that is as its code
// says.
func (c *Client) problem(w *http.Response, content []byte) error {
	var p struct {
		contracts.Problem
		Retryable *bool `json:"retryable"`
	}
	if err := json.Unmarshal(content, &p); err != nil || p.Code == "" {
		return lease.Invalid(c.name, fmt.Errorf("status %d with a problem that cannot be read", w.StatusCode))
	}
	e := p.Err()
	e.Status = w.StatusCode
	if p.Retryable != nil {
		e.Retryable = *p.Retryable
	} else {
		info, known := p.Code.Info()
		e.Retryable = info.Retryable || !known && passes(w.StatusCode)
	}
	if e.RequestID == "" {
		e.RequestID = w.Header.Get("X-Request-Id")
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = retryAfter(w.Header)
	}
	return e
}

// later is an error with the time after which the same request may succeed.
type later struct {
	error
	after time.Duration
}

// RetryAfter is for [contracts.RetryAfter], and for [kazahana.Generator].
func (e later) RetryAfter() time.Duration { return e.after }

// Unwrap is the error without the time.
func (e later) Unwrap() error { return e.error }

// passes reports whether a status says by itself that the same request may succeed later, from any server.
func passes(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}

// retryAfter is the time of the header Retry-After, a day at most: seconds, or a date, which is compared with the
// response's own. 0 is none.
func retryAfter(h http.Header) time.Duration {
	const most = 24 * time.Hour
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(most, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, min(most, at.Sub(now)))
}
