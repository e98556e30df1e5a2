package tests

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// made are pages that are not counted: their text comes from code, or they are one table. Of cli.md the part below the
// generated line is not counted.
var made = map[string]bool{
	"docs/reference/settings.md": true, "docs/reference/errors.md": true, "docs/reference/metrics.md": true,
	"docs/traceability.md": true,
}

// mostWords bounds all pages together, without the programs in them.
const mostWords = 60_000

// TestWordsOfThePages: all that is written by hand in English for people who use, operate or change Leasehold has at
// most mostWords words, and the README at most 1,100: a page that grows takes its words from another.
func TestWordsOfThePages(t *testing.T) {
	t.Parallel()
	generated := regexp.MustCompile(`(?s)<!-- table: [a-z-]+ -->.*?<!-- end -->|<!-- measured -->.*?<!-- /measured -->`)
	program := regexp.MustCompile("(?ms)^ *```\\w+\n.*?^ *```$")
	sum := 0
	for _, page := range tracked(t, "*.md") {
		root := path.Dir(page) == "." && page != "CHANGELOG.md"
		if !root && !strings.HasPrefix(page, "docs/") || strings.HasSuffix(page, ".ja.md") || made[page] {
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", page))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		} else if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(content), "<!-- Generated from ")
		text = generated.ReplaceAllString(text, "")
		sum += wordsOf(program.ReplaceAllString(text, ""))
		if n := wordsOf(text); page == "README.md" && n > 1100 {
			t.Errorf("%s has %d words: 1,100 at most", page, n)
		}
	}
	if sum > mostWords || sum < 10_000 {
		t.Errorf("the pages have %d words: %d at most", sum, mostWords)
	}
	t.Logf("%d words", sum)
}

// wordsOf counts the words of a text; the lines of a table are none.
func wordsOf(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.Trim(word, "|-") != "" {
			n++
		}
	}
	return n
}
