package expr

import (
	"strings"
	"testing"
)

// TestReservedWords: programs may count on it that a name with a digit or an underscore is none of the service's words.
func TestReservedWords(t *testing.T) {
	if len(reservedWords) != 573 {
		t.Errorf("%d words, want 573 as the developer guide has", len(reservedWords))
	}
	for w := range reservedWords {
		if strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || !reserved(strings.ToLower(w)) {
			t.Errorf("%q is not a word of letters that is found in lower case", w)
		}
	}
}
