package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestOf: a build says what it was made from, as far as the Go command recorded it.
func TestOf(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	recorded := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.3.1"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "4be5"}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"},
			{Key: "vcs.modified", Value: "false"},
		}}
	changed := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"},
		Settings: []debug.BuildSetting{
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
		if got := of(c.info, c.released).String(); got != c.want+here {
			t.Errorf("%s: %q, want %q", name, got, c.want+here)
		}
	}
}
