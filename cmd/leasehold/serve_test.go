package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestMendTokens: what is to be done about a file of tokens that cannot be read depends on why.
func TestMendTokens(t *testing.T) {
	t.Parallel()
	for says, err := range map[string]error{
		"leasehold token new --file 'a b'": &fs.PathError{Op: "open", Path: "a b", Err: fs.ErrNotExist},
		"chmod 0640 'a b'":                 &fs.PathError{Op: "open", Path: "a b", Err: fs.ErrPermission},
		"put back a copy":                  errors.New("invalid character 'z'"),
	} {
		if got := mendTokens("a b", err); !strings.Contains(got, says) {
			t.Errorf("%v: %s", err, got)
		}
	}
}
