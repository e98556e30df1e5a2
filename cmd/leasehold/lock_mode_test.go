package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
)

// TestRate: a rate is a number in a window of time, in the ways in which people write one; what is none is an error
// that says how.
func TestRate(t *testing.T) {
	if got, err := (lockMode{}).rate(); err != nil || got != (locks.Rate{}) {
		t.Errorf("left out: %+v, %v", got, err)
	}
	for text, want := range map[string]locks.Rate{
		"10/min":    {Limit: 10, Window: time.Minute},
		"10/m":      {Limit: 10, Window: time.Minute},
		"1/s":       {Limit: 1, Window: time.Second},
		"5/sec":     {Limit: 5, Window: time.Second},
		"1000/hour": {Limit: 1000, Window: time.Hour},
		"3/90s":     {Limit: 3, Window: 90 * time.Second},
		"3/1m30s":   {Limit: 3, Window: 90 * time.Second},
		"2/day":     {Limit: 2, Window: 24 * time.Hour},
		"2/24h":     {Limit: 2, Window: 24 * time.Hour},
	} {
		if got, err := (lockMode{Rate: &text}).rate(); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "such as 10/min", "10": "such as 10/min", "/min": "such as 10/min", "10/": "such as 10/min",
		"10/fortnight": "such as 10/min", "ten/min": "such as 10/min",
		"1.5/s": "such as 10/min", "10/60": "such as 10/min", "10/0s": "such as 10/min",
		"0/s": "1 to 1000", "-1/s": "1 to 1000", "1001/s": "1 to 1000",
		"1/500ms": "whole seconds", "1/1.5s": "whole seconds", "1/25h": "whole seconds", "1/-5s": "whole seconds",
	} {
		if got, err := (lockMode{Rate: &text}).rate(); err == nil || !strings.Contains(err.Error(), "--rate "+text+": ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// TestModesThatCannotWork: flags that do not go together are an error before anything is sent, with the flag and what
// is right.
func TestModesThatCannotWork(t *testing.T) {
	for args, want := range map[string]string{
		"--shared --permits 3":               "can't be used together",
		"--shared --rate 1/s":                "can't be used together",
		"--permits 3 --replace":              "can't be used together",
		"--permits 101":                      "--permits 101: must be 1 to 100",
		"--permits 0":                        "--permits 0: must be 1 to 100",
		"--rate=":                            "--rate : must be a number",
		"--fair --wait 1s --max-waiting 0":   "--max-waiting 0: must be 1 to 100",
		"--permits=-1":                       "--permits -1: must be 1 to 100",
		"--rate often":                       "--rate often: must be a number",
		"--rate 1/s --lock-delay 5s":         "--lock-delay does not belong to --rate",
		"--max-waiting 1 --fair":             "add --wait",
		"--max-waiting 1 --wait 1m":          "add --fair",
		"--max-waiting 101 --fair --wait 1m": "--max-waiting 101: must be 1 to 100",
		"--max-waiting=-1 --fair --wait 1m":  "--max-waiting -1: must be 1 to 100",
		"--lock-delay 1.5s":                  "--lock-delay 1.5s: must be whole seconds",
		"--lock-delay 2h":                    "--lock-delay 2h0m0s: must be whole seconds",
		"--lock-delay=-1s":                   "--lock-delay -1s: must be whole seconds",
		"--max-waiting 1 --rate 1/s":         "add --wait",
		"--ttl 0s --permits 3":               "--ttl 0s: must be whole seconds",
		"--ttl 25h --shared":                 "--ttl 25h0m0s: must be whole seconds",
	} {
		for command, exit := range map[string]int{"lock run k %s -- true": exitTrouble, "lock acquire k %s": exitUsage} {
			var out, errs strings.Builder
			line := strings.Fields(strings.Replace(command, "%s", args, 1))
			code := run(t.Context(), append([]string{"--server", "http://127.0.0.1:1"}, line...), &out, &errs)
			if code != exit && !strings.Contains(want, "together") || !strings.Contains(errs.String(), want) {
				t.Errorf("%s: %d, %s", line, code, &errs)
			}
		}
	}
	var out, errs strings.Builder
	if code := run(t.Context(), strings.Fields("lock run k --rate 1/s --grace 5s -- true"), &out,
		&errs); code != exitTrouble ||
		!strings.Contains(errs.String(), "--grace does not belong to --rate") {
		t.Errorf("%d, %s", code, &errs)
	}
}

// TestSeveralKeysThatCannotWork: --also with what one lock only can have, or with keys that none can have, is an error
// before anything is sent.
func TestSeveralKeysThatCannotWork(t *testing.T) {
	for args, want := range map[string]string{
		"k --also l --shared":                  "--also: several locks have one holder each and no line",
		"k --also l --permits 2":               "--also: several locks have one holder each and no line",
		"k --also l --rate 1/s":                "--also: several locks have one holder each and no line",
		"k --also l --replace":                 "--also: several locks have one holder each and no line",
		"k --also l --fair":                    "--also: several locks have one holder each and no line",
		"k --also l --lock-delay 1s":           "--also: several locks have one holder each and no line",
		"k --also k":                           "--also k: the lock is named twice",
		"k --also l --also l":                  "--also l: the lock is named twice",
		"--key k --also k":                     "--also k: the lock is named twice",
		"k --also " + strings.Repeat("l", 257): "has 257 bytes, 256 at most",
		"k" + strings.Repeat(" --also=x", 20):  "--also x: the lock is named twice",
		"k" + further(20):                      "--also: 21 locks with the first: at most 20",
		// what follows the dashes is taken for the lock, as without --also
		"--also l":                                 "the command is missing",
		"k --also= ":                               "--also: the lock is missing",
		"k --also l --ttl 0s":                      "--ttl 0s: must be whole seconds",
		"k" + further(19) + " --metadata a=\x01":   "control character",
		"k --also l --wait 1m --max-waiting 1":     "add --fair",
		"k --also l --wait 1m --fair --skip":       "leave out --shared, --permits, --rate, --replace, --fair, --max-waiting and --lock-delay",
		"k --also l --grace 15s":                   "--grace 15s: must be less than half",
		"k --also l --permits 2 --wait 1m --skip ": "leave out",
	} {
		var out, errs strings.Builder
		line := append(append([]string{"--server", "http://127.0.0.1:1", "lock", "run"}, strings.Fields(args)...), "--",
			"true")
		if code := run(t.Context(), line, &out, &errs); code != exitTrouble || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d, %s", args, code, &errs)
		}
	}
}

// further are so many keys more, one of them with a comma, which separates nothing.
func further(n int) string {
	var flags strings.Builder
	for i := range n {
		fmt.Fprintf(&flags, " --also=a,%d", i)
	}
	return flags.String()
}

// TestOwners: the default owner is the same for all steps of a script, and tells commands that hold locks by themselves
// apart.
func TestOwners(t *testing.T) {
	own := owner{}.id(remote{})
	if again := (owner{}).id(remote{}); own != again || !strings.Contains(own, "@") {
		t.Errorf("%s, then %s", own, again)
	}
	if got, want := (owner{}).ofProcess(remote{}), fmt.Sprintf("%s:%d", own, os.Getpid()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, o := range []string{owner{"ci-42"}.id(remote{}), owner{"ci-42"}.ofProcess(remote{})} {
		if o != "ci-42" {
			t.Errorf("got %s", o)
		}
	}
}

// TestLockDetails: a lock with several holders or a line shows them, and what was before; what others chose does not
// reach the terminal as it is.
func TestLockDetails(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 2, 3, 0, time.UTC)
	pool := contracts.Lock{
		TenantID: "acme", LockKey: "pool", State: contracts.StateActive, OwnerID: "bob",
		AcquiredAt: "2026-01-01T00:02:00.000Z", ExpiresAt: "E2",
		Mode: contracts.LockModePermits, Limit: 3, FreeAt: "F",
		Holders: []contracts.LockHolder{
			{OwnerID: "a\x1b[2Jnn", Mode: contracts.LockModePermits, Permit: 1, AcquiredAt: "2026-01-01T00:00:00.000Z",
				ExpiresAt: "E1", Metadata: map[string]string{"a": "b"}},
			{OwnerID: "bob", Mode: contracts.LockModePermits, Permit: 2, AcquiredAt: "2026-01-01T00:02:00.000Z",
				ExpiresAt: "E2"},
		},
		Waiting: []contracts.LockWaiter{{OwnerID: "cy", Mode: contracts.LockModePermits, Since: "S", Until: "U"}},
		History: []contracts.PastLease{
			{OwnerID: "dan", FencingToken: 7, AcquiredAt: "A", EndedAt: "Z", Ended: contracts.EndedForced, EndedBy: "root"},
			{OwnerID: "eve", FencingToken: 6, AcquiredAt: "A0", EndedAt: "Z0", Ended: contracts.EndedReleased},
		},
		Refused:      &contracts.LockRefusal{OwnerID: "fay", At: "R"},
		ForceRelease: &contracts.ForcedRelease{By: "root", Reason: "it does not respond", At: "Z"},
	}
	got := table([]contracts.Lock{pool}, now, false) + details(pool, now, printable)
	var lines []string
	for l := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(l), " "))
	}
	want := []string{
		"TENANT LOCK STATE OWNER AGE UNTIL MODE HOLDERS WAITING METADATA",
		"acme pool ACTIVE bob 3s E2 permits=3 2 1",
		"", "HOLDER MODE PERMIT AGE UNTIL METADATA", `"a\x1b[2Jnn" permits 1 2m3s E1 a=b`, "bob permits 2 3s E2",
		"", "WAITING PLACE MODE SINCE UNTIL", "cy 1 permits S U",
		"", "BEFORE TOKEN ACQUIRED ENDED HOW", "dan 7 A Z forced by root", "eve 6 A0 Z0 released",
		"", `ended by root at Z: "it does not respond"`,
		"", "closed until F, after a lease that was lost",
		"", "refused last: fay, at R",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
	used := contracts.Lock{LockKey: "mail", State: contracts.StateActive, Mode: contracts.LockModeRate, Limit: 2,
		WindowSeconds: 60, FreeAt: "F"}
	if d := details(used, now, printable); d != "\nused up: the next grant is possible at F\n" {
		t.Errorf("of a rate: %q", d)
	}
	plain := contracts.Lock{TenantID: "acme", LockKey: "a", State: contracts.StateActive, OwnerID: "ann"}
	if d := details(plain, now, printable); d != "" {
		t.Errorf("of a plain lock: %q", d)
	}
	for want, l := range map[string]contracts.Lock{
		"exclusive": {}, "shared": {Mode: contracts.LockModeShared},
		"rate=10/1m": {Mode: contracts.LockModeRate, Limit: 10, WindowSeconds: 60},
	} {
		if m := modeOf(l); m != want {
			t.Errorf("mode %q, want %q", m, want)
		}
	}
	if holding(plain) != 1 || holding(contracts.Lock{State: contracts.StateReleased}) != 0 ||
		holding(contracts.Lock{State: contracts.StateActive, Mode: contracts.LockModeRate}) != 0 {
		t.Error("how many hold it")
	}
	for name, change := range map[string]func(*contracts.Lock){
		"another holder": func(l *contracts.Lock) { l.Holders = l.Holders[:1] },
		"another waits": func(l *contracts.Lock) {
			l.Waiting = []contracts.LockWaiter{{OwnerID: "gil", Since: "S", Until: "U"}}
		},
		"no delay": func(l *contracts.Lock) { l.FreeAt = "" },
	} {
		other := pool
		if change(&other); !differ(pool, other) {
			t.Errorf("%s is no change", name)
		}
	}
	renewed := pool
	renewed.Waiting = []contracts.LockWaiter{{OwnerID: "cy", Mode: contracts.LockModePermits, Since: "S", Until: "later"}}
	if differ(pool, renewed) {
		t.Error("a place that is kept is a change")
	}
}
