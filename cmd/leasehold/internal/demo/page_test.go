package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/console"
)

// TestPage: the page is as small as the console's, and refers to nothing outside.
func TestPage(t *testing.T) {
	total := 0
	var names []string
	for _, f := range console.Load(assets) {
		total += len(f.Content)
		names = append(names, f.Name)
		text := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(string(f.Content), "http://www.w3.org/2000/svg", ""),
			"http://www.w3.org/1999/xhtml", ""),
			"http://www.w3.org/1998/Math/MathML", "")
		for _, m := range regexp.MustCompile(
			`(?i)\b(?:https?|wss?):|["'(]//|@import|(?-i:\burl\()|<style|\sstyle=|\son\w+="`).FindAllString(text, -1) {
			t.Errorf("%s has %q", f.Name, m)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"", "app.js", "icon.svg", "style.css"}) ||
		total > console.MaxBytes {
		t.Errorf("%q have %d bytes, at most %d are allowed", names, total, console.MaxBytes)
	}
}

// TestAddress: the page and the scenes are for this machine only.
func TestAddress(t *testing.T) {
	for _, listen := range []string{"", "127.0.0.1", "0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:8080",
		"localhost.evil.example:0"} {
		for name, show := range map[string]func(context.Context, io.Writer, Options) error{"page": Run, "scenes": Check} {
			if err := show(t.Context(), io.Discard, Options{Executable: "/none", Listen: listen}); !errors.Is(err, ErrAddress) {
				t.Errorf("%s, %q: %v", name, listen, err)
			}
		}
	}
	if err := Run(t.Context(), io.Discard, Options{Executable: "/none", Listen: "localhost:0"}); err == nil ||
		errors.Is(err, ErrAddress) {
		t.Errorf("localhost: %v, want that the program is not there", err)
	}
}

// TestTexts: both languages have the same texts with the same places to fill, and all that the page and the server ask
// for.
func TestTexts(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	table := func(lang string) map[string]string {
		all := map[string]string{}
		for _, m := range regexp.MustCompile(`(?:'([^']+)'|\b(\w+)): '([^']*)'`).FindAllStringSubmatch(
			read("src/"+lang+".js"), -1) {
			if all[m[1]+m[2]] != "" {
				t.Errorf("%s: %s is there twice", lang, m[1]+m[2])
			}
			all[m[1]+m[2]] = m[3]
		}
		return all
	}
	en, ja := table("en"), table("ja")
	places := func(text string) []string {
		found := regexp.MustCompile(`\{\w+\}`).FindAllString(text, -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	for key, text := range en {
		if ja[key] == "" || !slices.Equal(places(text), places(ja[key])) {
			t.Errorf("%s: %q, and in Japanese %q", key, text, ja[key])
		}
	}
	for key := range ja {
		if en[key] == "" {
			t.Errorf("%s is in Japanese only", key)
		}
	}
	page, server := read("src/app.js"), read("page.go")+read("workers.go")
	var asked []string
	for _, m := range regexp.MustCompile(`\bt\('([^']+)'\s*[,)]`).FindAllStringSubmatch(page, -1) {
		asked = append(asked, m[1])
	}
	for _, m := range regexp.MustCompile(`\bt\([^()]*\? '([^']+)' : '([^']+)'`).FindAllStringSubmatch(page, -1) {
		asked = append(asked, m[1], m[2])
	}
	kinds := regexp.MustCompile(`[Kk]ind(?::| :?=) "(\w+)"|e\.Kind = .*"(\w+)"`).FindAllStringSubmatch(server, -1)
	for _, m := range kinds {
		asked = append(asked, "story."+m[1]+m[2])
	}
	if len(kinds) != 16 {
		t.Errorf("%d kinds of events", len(kinds))
	}
	for _, o := range []outcome{applied, overwrote, twice, ignored, stale, repeated} {
		asked = append(asked, "row."+string(o))
		if o != applied {
			asked = append(asked, "so."+string(o))
		}
	}
	for _, s := range []state{waiting, working, frozen, dead, "armed"} {
		asked = append(asked, "state."+string(s))
	}
	for _, key := range asked {
		if en[key] == "" {
			t.Errorf("no table has %q", key)
		}
	}
}
