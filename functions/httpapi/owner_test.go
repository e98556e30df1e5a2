package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestOwnerOfALongSubject: every subject that is accepted has an owner that fits with the longest suffix, and no two
// have the same, also where they differ only behind what an owner has of them. A short one is its own owner.
func TestOwnerOfALongSubject(t *testing.T) {
	t.Parallel()
	suffix := strings.Repeat("w", maxSuffixBytes)
	owners := map[string]string{}
	var subjects []string
	for _, n := range []int{1, maxOwnerBytes, maxOwnerBytes + 1, 290, MaxSubjectBytes} {
		for _, end := range []string{"", "a", "b", "#", "%23"} {
			for _, letter := range []string{"s", "é", "#", "%"} {
				if s := strings.Repeat(letter, max(0, n-len(end))/len(letter)) + end; s != "" {
					subjects = append(subjects, s)
				}
			}
		}
	}
	subjects = append(subjects, Caller{Subject: strings.Repeat("s", 300)}.mustOwner(t, ""))
	for _, s := range subjects {
		c := Caller{Subject: s}
		for _, more := range []string{"", suffix} {
			owner := c.mustOwner(t, more)
			if before, ok := owners[owner]; ok && before != s {
				t.Fatalf("%q and %q are both %q", s, before, owner)
			}
			owners[owner] = s
			if len(owner) > lock.MaxOwnerBytes || !utf8.ValidString(owner) {
				t.Errorf("the owner %q has %d bytes", owner, len(owner))
			}
			if whole, err := c.lockOwner(owner); err != nil || whole != owner {
				t.Errorf("%q is sent back as %q, %v", owner, whole, err)
			}
			if more == "" && len(s) <= maxOwnerBytes && !strings.ContainsAny(s, "#%") && owner != s {
				t.Errorf("%q is %q", s, owner)
			}
		}
	}
}

func (c Caller) mustOwner(t *testing.T, suffix string) string {
	t.Helper()
	owner, err := c.owner(suffix)
	if err != nil {
		t.Fatal(err)
	}
	return owner
}

// TestBearerOf32KiB: a token is read up to the bound, and refused one byte beyond it and far beyond.
func TestBearerOf32KiB(t *testing.T) {
	t.Parallel()
	for n, good := range map[int]bool{
		1: true, maxTokenBytes: true, maxTokenBytes + 1: false, 10 * maxTokenBytes: false,
	} {
		token := strings.Repeat("t", n)
		got, err := Bearer(http.Header{"Authorization": {"Bearer " + token}})
		if good != (err == nil && got == token) || !good && !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
	}
}
