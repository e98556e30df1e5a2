package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDemoFlagsOfTheBrowser: flags that only the demonstration in a browser has are not ignored without it.
func TestDemoFlagsOfTheBrowser(t *testing.T) {
	for _, args := range [][]string{
		{"demo", "--listen", "127.0.0.1:8090"}, {"demo", "--no-browser"}, {"demo", "--json", "--no-browser"},
		{"demo", "--listen", "127.0.0.1:0", "--json"},
	} {
		var out, errs bytes.Buffer
		flag := args[1]
		if flag == "--json" {
			flag = args[2]
		}
		code := run(t.Context(), args, &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(),
			flag+" is for the demonstration in a browser: use it with --web") || out.Len() > 0 {
			t.Errorf("%q: exit code %d\n%s%s", args, code, &out, &errs)
		}
	}
}
