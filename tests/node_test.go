package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
)

// TestNodeExternalID: the example in Node, which shares no code with this module, does what the test vectors say; and
// its check notices a vector that was changed.
func TestNodeExternalID(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on the PATH; install Node 20 or later and run: node examples/node-external-id/check.mjs")
	}
	script := filepath.Join("..", "examples", "node-external-id", "check.mjs")
	content, err := os.ReadFile(filepath.Join("..", "contracts", "vectors", "kazahana.json"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]int{}, map[string]int{}
	for name, member := range file {
		var list []json.RawMessage
		if json.Unmarshal(member, &list) == nil {
			want[name] = len(list)
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("node checked %s, want %v (%v)", out, want, err)
	}

	for name, mutation := range map[string]struct{ what, by, says string }{
		"public ID":    {`("externalId": ")[0-9A-Za-z_-]`, `${1}~`, "AssertionError"},
		"sequence":     {`("sequence": )7\b`, `${1}8`, "AssertionError"},
		"signature":    {`("signature": "[0-9a-f]{63})[0-9a-f]`, `${1}x`, "AssertionError"},
		"plausibility": {`("accepted": )false`, `${1}true`, "ImplausibleError"},
		"reason":       {`("reason": )"length"`, `${1}"character"`, "AssertionError"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := regexp.MustCompile(mutation.what).ReplaceAll(content, []byte(mutation.by))
			if bytes.Equal(changed, content) {
				t.Fatal("nothing to change")
			}
			file := filepath.Join(t.TempDir(), "kazahana.json")
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), node, script, file).CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte(mutation.says)) {
				t.Errorf("the change was not noticed: %v\n%s", err, out)
			}
		})
	}
}
