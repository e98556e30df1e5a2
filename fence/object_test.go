package fence_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// bucket is an object with versions.
type bucket struct {
	data    string
	lease   fence.Lease
	writes  int
	history []int64 // the tokens that wrote, in their order

	// Mutations.
	unconditional  bool // a write ignores the version
	contentVersion bool // the version is made of the content alone, as the ETag of S3
}

func (b *bucket) version() string {
	switch {
	case b.writes == 0:
		return ""
	case b.contentVersion:
		return "of " + b.data
	default:
		return strconv.Itoa(b.writes)
	}
}

var errLost = errors.New("the connection was lost")

// fate is what becomes of a request.
type fate int

const (
	arrives fate = iota
	lostRequest
	lostResponse
	fates
)

// holder writes to a bucket. Each of its requests waits until it is resumed, and has the fate that is then set.
type holder struct {
	*bucket
	wait func() bool
	fate fate
}

// Get implements [fence.Object].
func (h *holder) Get(context.Context) (fence.Lease, string, error) {
	h.wait()
	if h.fate != arrives {
		return fence.Lease{}, "", errLost
	}
	return h.lease, h.version(), nil
}

// Put implements [fence.Object].
func (h *holder) Put(_ context.Context, data []byte, l fence.Lease, ifVersion string) error {
	h.wait()
	if h.fate == lostRequest {
		return errLost
	}
	if ifVersion != h.version() && !h.unconditional {
		return fence.ErrChanged
	}
	h.data, h.lease = string(data), l
	h.writes++
	h.history = append(h.history, l.Token)
	if h.fate == lostResponse {
		return errLost
	}
	return nil
}

// begin is a holder that writes the texts, sends again what was lost, and stops when its token is stale. Resume lets
// its next request happen, and reports whether there is one after it.
func begin(b *bucket, token int64, texts []string, unexpected *error) (h *holder, resume func() bool, stop func()) {
	h = &holder{bucket: b}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		h.wait = func() bool { return yield(struct{}{}) }
		for _, text := range texts {
			err := errLost
			for errors.Is(err, errLost) {
				err = fence.PutObject(context.Background(), h, ordersLease(token), []byte(text), nil)
			}
			if errors.Is(err, contracts.CodeStaleToken) {
				return
			}
			*unexpected = errors.Join(*unexpected, err)
		}
	})
	return h, func() bool { _, ok := next(); return ok }, stop
}

// interleave carries out the requests of two holders in the order that the choices say, each of which is a holder and a
// fate; without one it is the first. One request is lost, or its response. It returns how many choices there were at
// each step, and what is wrong with what was written.
func interleave(b *bucket, first, second []string, choices []int) (options []int, err error) {
	type running struct {
		*holder
		resume func() bool
	}
	var run []running
	for i, texts := range [][]string{first, second} {
		h, resume, stop := begin(b, int64(1+i), texts, &err)
		defer stop()
		if resume() {
			run = append(run, running{h, resume})
		}
	}
	lost := false
	for step := 0; len(run) > 0; step++ {
		n, choice := len(run), 0
		if !lost {
			n *= int(fates)
		}
		if step < len(choices) {
			choice = choices[step]
		}
		options = append(options, n)
		i := choice % len(run)
		run[i].fate = fate(choice / len(run))
		lost = lost || run[i].fate != arrives
		if !run[i].resume() {
			run = slices.Delete(run, i, i+1)
		}
	}
	if !slices.IsSorted(b.history) {
		err = errors.Join(err, fmt.Errorf("written by the tokens %v", b.history))
	}
	if len(b.history) > 0 && b.lease != ordersLease(b.history[len(b.history)-1]) {
		err = errors.Join(err, fmt.Errorf("%v is stored after %v", b.lease, b.history))
	}
	return options, err
}

// every runs all interleavings, until one is wrong.
func every(t *testing.T, b bucket, first, second []string) (runs int, err error) {
	synctest.Test(t, func(*testing.T) { // the time between two tries passes at once
		for choices := []int{}; ; runs++ {
			subject := b
			var options []int
			if options, err = interleave(&subject, first, second, choices); err != nil {
				err = fmt.Errorf("%v: %w", choices, err)
				return
			}
			for len(choices) < len(options) {
				choices = append(choices, 0)
			}
			last := len(options) - 1
			for last >= 0 && choices[last] == options[last]-1 {
				last--
			}
			if last < 0 {
				return
			}
			choices = append(choices[:last:last], choices[last]+1)
		}
	})
	return runs, err
}

// TestObjectOfTwoHolders: LS-FENCE-001 for an object of a bucket. However the requests of two holders follow each
// other, and whichever one of them is lost, a lower token never writes after a higher one.
func TestObjectOfTwoHolders(t *testing.T) {
	for name, b := range map[string]bucket{"new": {}, "existing": {data: "x", writes: 1}} {
		t.Run(name, func(t *testing.T) {
			runs, err := every(t, b, []string{"a", "b"}, []string{"a"})
			if err != nil || runs < 1000 {
				t.Errorf("%d interleavings, %v", runs, err)
			}
		})
	}
}

// TestObjectMutations: the test above notices a store that does not compare versions, and versions that do not tell
// tokens apart.
func TestObjectMutations(t *testing.T) {
	for name, b := range map[string]bucket{"no condition": {unconditional: true},
		"the version is the content": {contentVersion: true}} {
		t.Run(name, func(t *testing.T) {
			if runs, err := every(t, b, []string{"a", "b"}, []string{"a"}); err == nil {
				t.Errorf("%d interleavings did not notice", runs)
			} else {
				t.Log(err)
			}
		})
	}
}

// TestObjectTokens: what PutObject does not write.
func TestObjectTokens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	strict := &fence.ObjectOptions{Now: func() time.Time { return now }}
	lenient := &fence.ObjectOptions{Now: strict.Now, AllowNone: true}
	b := bucket{data: "x", lease: ordersLease(7), writes: 1}
	h := &holder{bucket: &b, wait: func() bool { return true }}
	for i, c := range []struct {
		token int64
		o     *fence.ObjectOptions
		code  contracts.Code
	}{
		{6, strict, contracts.CodeStaleToken}, {6, lenient, contracts.CodeStaleToken},
		{0, strict, contracts.CodeInvalidArgument}, {0, nil, contracts.CodeInvalidArgument},
		{now.Add(time.Hour).UnixMicro() + 1, lenient, contracts.CodeInvalidArgument}, {7, strict, ""}, {0, lenient, ""},
		{6, strict, contracts.CodeStaleToken},
	} {
		if err := fence.PutObject(t.Context(), h, ordersLease(c.token), []byte("y"), c.o); c.code == "" && err != nil ||
			c.code != "" && !errors.Is(err, c.code) {
			t.Errorf("%d: %v, want %q", i, err, c.code)
		}
	}
	if b.writes != 3 || b.lease != ordersLease(7) {
		t.Errorf("%+v", b)
	}
	for subject, code := range map[string]contracts.Code{"run/key-2": contracts.CodeOtherSubject,
		"": contracts.CodeInvalidArgument} {
		for _, token := range []int64{6, 8} {
			err := fence.PutObject(t.Context(), h, fence.Lease{Subject: subject, Token: token}, []byte("z"), strict)
			if !errors.Is(err, code) || b.writes != 3 {
				t.Errorf("%q: %v, %+v", subject, err, b)
			}
		}
	}
}

// TestObjectThatAlwaysChanges: PutObject goes on until its context ends.
func TestObjectThatAlwaysChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := bucket{writes: 1}
		h := &holder{bucket: &b}
		h.wait = func() bool { b.writes++; return true }
		if err := fence.PutObject(ctx, h, ordersLease(1), nil, nil); !errors.Is(err, context.DeadlineExceeded) || b.writes > 1000 {
			t.Errorf("%v after %d requests", err, b.writes)
		}
	})
}
