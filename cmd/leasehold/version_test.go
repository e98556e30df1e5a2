package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersion: a build says what it was made from, as far as the Go command recorded it.
func TestVersion(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	recorded := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.3.1"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "4be5"}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}, {Key: "vcs.modified", Value: "false"},
	}}
	changed := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "4be5"}, {Key: "vcs.modified", Value: "true"},
	}}
	for name, c := range map[string]struct {
		info     *debug.BuildInfo
		released string
		want     string
	}{
		"a module":      {recorded, "", "v0.3.1, commit 4be5 of 2026-11-22T10:00:00Z, go1.26.0, "},
		"a release":     {recorded, "v1.0.0", "v1.0.0, commit 4be5 of 2026-11-22T10:00:00Z, go1.26.0, "},
		"with changes":  {changed, "", "development build, commit 4be5 with changes, go1.26.0, "},
		"no repository": {&debug.BuildInfo{GoVersion: "go1.26.0"}, "", "development build, go1.26.0, "},
		"nothing":       {nil, "", "development build, "},
	} {
		if got := thisBuild(c.info, c.released).String(); got != c.want+here {
			t.Errorf("%s: %q, want %q", name, got, c.want+here)
		}
	}
	for _, args := range [][]string{{"version", "--json"}, {"--version", "--json"}, {"--json", "--version"}, {"--json", "version"}} {
		var out, errs strings.Builder
		var got build
		if code := run(t.Context(), args, &out, &errs); code != exitOK || json.Unmarshal([]byte(out.String()), &got) != nil || got.Platform != here || got.Version == "" {
			t.Errorf("%v: %d %q %q", args, code, &out, &errs)
		}
	}
}
