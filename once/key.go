package once

import "strings"

// Key is a name of a run that is made of parts, with ":" between them: Key("invoice", customer, "2026-11") is
// invoice:c17:2026-11. Different parts make different names, also ("a:b", "c") and ("a", "b:c"): in a part "~", ":" and
// "/" are written as ~7E, ~3A and ~2F, and everything else as it is. There must be a part that is not empty, and a name
// has 256 bytes at most.
func Key(parts ...string) string {
	escapes := strings.NewReplacer("~", "~7E", ":", "~3A", "/", "~2F")
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escapes.Replace(part)
	}
	return strings.Join(escaped, ":")
}
