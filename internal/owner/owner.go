// Package owner names the holder of a lease: the name that a program has unless it is given one, and which names can be
// accepted.
package owner

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Process is a name of this process, "host-suffix", of characters that a server takes as the suffix of a verified name.
// The suffix tells it from others on the same host.
func Process(suffix string) string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return Of(host, suffix)
}

// Of is the name of a process on a host, whose name is cut to 40 characters; empty if it is not known.
func Of(host, suffix string) string {
	host = strings.Map(func(r rune) rune {
		if !plain(r) {
			return '-'
		}
		return r
	}, cmp.Or(host, "host"))
	return fmt.Sprintf("%.40s-%s", host, suffix)
}

// Plain reports whether a text has no other characters than those that a server takes as the suffix of a verified name.
func Plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}

func plain(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r))
}

// CheckText checks what a caller named: 1 to most bytes of UTF-8 without control characters. The error begins with
// name.
func CheckText(name, s string, most int) error {
	switch {
	case s == "" || len(s) > most:
		return fmt.Errorf("%s has %d bytes: must have 1 to %d", name, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q: must be UTF-8 without control characters", name, s)
	default:
		return nil
	}
}
