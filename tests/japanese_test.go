package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// translated is the first line of a page in Japanese: the page in English that it says again.
var translated = regexp.MustCompile(`^<!-- (\S+) -->\n`)

// pageLink is a link to a page of this repository, with or without a heading.
var pageLink = regexp.MustCompile(`\]\(([^):]+\.md)(?:#[^)]*)?\)`)

// japanese is the path of a page in Japanese, of that of the page in English.
func japanese(page string) string { return strings.TrimSuffix(page, ".md") + ".ja.md" }

// TestJapanese: each page in Japanese names the page in English of which it is the translation, has its programs and
// its sections, and leads to other pages in Japanese where there are any. Each tutorial has one.
func TestJapanese(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, folder := range []string{"..", "../docs", "../docs/*"} {
		some, err := filepath.Glob(folder + "/*.ja.md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, some...)
	}
	tutorials, err := filepath.Glob("../docs/tutorials/*.md")
	if err != nil || len(tutorials) == 0 {
		t.Fatal(tutorials, err)
	}
	for _, page := range tutorials {
		if !strings.HasSuffix(page, ".ja.md") && !slices.Contains(pages, japanese(page)) {
			t.Errorf("there is no %s", japanese(page))
		}
	}
	code := regexp.MustCompile("(?ms)^ *```(\\w+)\n.*?^ *```$")
	comment := regexp.MustCompile(`(#|//) .*`) // in the language of the page
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := translated.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s: the first line must be <!-- PAGE -->, with the page in English that it translates", page)
			continue
		}
		name := string(m[1])
		english, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		want, got := code.FindAll(english, -1), code.FindAll(text, -1)
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) ||
				!bytes.Equal(comment.ReplaceAll(want[i], nil), comment.ReplaceAll(got[i], nil)) {
				t.Errorf("%s and %s differ in program %d of %d", page, m[1], i+1, len(want))
			}
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join(filepath.Dir(page), m[1])
			if to != filepath.Join("..", name) && slices.Contains(pages, japanese(to)) {
				t.Errorf("%s links to %s, which is there in Japanese", page, m[1])
			}
		}
		if titles := func(b []byte) int { return strings.Count("\n"+string(b), "\n## ") }; titles(english) > titles(text) {
			t.Errorf("%s has %d sections, and %s has %d", page, titles(text), m[1], titles(english))
		}
	}
}

// TestJapaneseReadme: a reader of the README in Japanese finds every page that the one in English leads to, and each of
// its qualifications: what is not released, what was tried with emulators, what Redis needs, who can connect.
func TestJapaneseReadme(t *testing.T) {
	t.Parallel()
	links := func(page string) map[string]bool {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, m := range pageLink.FindAllStringSubmatch(string(text), -1) {
			found[strings.TrimSuffix(strings.TrimSuffix(m[1], ".md"), ".ja")] = true
		}
		for _, m := range qualified.FindAllString(string(text), -1) {
			found[sayings[m]] = true
		}
		return found
	}
	english, japanese := links("README.md"), links("README.ja.md")
	for _, saying := range sayings {
		if !english[saying] {
			t.Errorf("README.md has no qualification %q", saying)
		}
	}
	for link := range english {
		if !japanese[link] {
			t.Errorf("README.ja.md has no %s, README.md has", link)
		}
	}
}

// sayings are the qualifications of the README in both languages, and what they are about.
var sayings = map[string]string{
	"released yet":                 "that nothing is released",
	"まだリリースはありません":                 "that nothing is released",
	"emulators)":                   "emulators",
	"エミュレーター）":                     "emulators",
	"`appendfsync always`":         "what Redis needs",
	"listens on this machine only": "who can connect",
	"このマシンの中からしか接続できません":        "who can connect",
	"does not replicate SQLite": "that SQLite is not replicated",
	"SQLite を複製せず":              "that SQLite is not replicated",
}

var qualified = func() *regexp.Regexp {
	var all []string
	for saying := range sayings {
		all = append(all, regexp.QuoteMeta(saying))
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()
