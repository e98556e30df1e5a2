package main

import (
	"io"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for _, good := range []string{"v0.0.0", "v1.2.3", "v1.20.300", "v0.1.0-rc.1", "v1.0.0-alpha-2.x", "v1.0.0-0a"} {
		if v, err := parseVersion(good); err != nil || string(v) != good {
			t.Errorf("%s: %q, %v", good, v, err)
		}
	}
	for bad, says := range map[string]string{
		"": "VERSION is missing", "1.2.3": "with a v: v1.2.3", "v1.2": "want a version", "v1.2.3.4": "want a version",
		"v01.2.3": "want a version",
		"v1.2.3-": "want a version", "v1.2.3-rc.01": "want a version", "v1.2.3+linux": "without build metadata",
		"latest": "want a version",
		"v1.2 3": "want a version", "v1.2.3/../..": "want a version", "V1.2.3": "want a version", "v2.0.0": "suffix /v2",
		"v1.2.3-ä": "want a version",
	} {
		if v, err := parseVersion(bad); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "VERSION") {
			t.Errorf("%q: %q, %v, want %q", bad, v, err, says)
		}
	}
}

// TestArguments: what cannot be done is rejected before anything is built.
func TestArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no version":             {nil, "VERSION is missing"},
		"two":                    {[]string{"v1.0.0", "v1.0.1"}, "one VERSION"},
		"no such platform":       {[]string{"-platforms", "linux/mips", "v1.0.0"}, `"linux/mips" is none of linux/amd64`},
		"a platform twice":       {[]string{"-platforms", "linux/amd64,linux/amd64", "v1.0.0"}, "twice"},
		"the root of Windows":    {[]string{"-rootfs", "x", "-platforms", "windows/amd64"}, "one platform of Linux"},
		"the root of all":        {[]string{"-rootfs", "x"}, "one platform of Linux"},
		"an invalid one of root": {[]string{"-rootfs", "x", "-platforms", "linux/amd64", "1.0"}, "VERSION"},
		"a flag":                 {[]string{"-publish", "v1.0.0"}, "not defined: -publish"},
	} {
		if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
