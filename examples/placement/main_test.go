package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the test's program be the members, too.
func TestMain(m *testing.M) {
	if os.Getenv(asMember) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestExample: it runs to its end, and no room was active twice.
func TestExample(t *testing.T) {
	var out strings.Builder
	if err := show(&out, 200); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "active twice: 0"); n != 3 || !strings.Contains(out.String(), "dave: ") {
		t.Error(out.String())
	}
}
