package console_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/console"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// serve is an API with the console, wired as programs do, under a path.
func serve(on bool, base string, identity httpapi.Identity) http.Handler {
	c := &settings.Config{Console: on, RequestTimeout: time.Minute}
	return setup.BasePath(base, httpapi.New(docstore.NewMemory(nil), identity, setup.API(c, nil, nil)))
}

func ask(h http.Handler, method, path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestPaths: the files have just their paths, behind a base path as well, and nothing is there if the console is off.
func TestPaths(t *testing.T) {
	h := serve(true, "/leasehold", httpapi.Development{})
	for path, want := range map[string]int{
		"/console/": 200, "/console": 308, "/leasehold/console/": 200, "/leasehold/console": 308, "/console/app.js": 200,
		"/console/style.css": 200, "/console/icon.svg": 200,
		"/leasehold/console/app.js": 200, "/console/index.html": 404, "/console/app.js/": 404, "/console//": 404,
		"/console/../console/": 404, "/console/%2e%2e/console.go": 404,
		"/console/src/app.js": 404, "/console/assets/app.js": 404, "/Console/": 404, "/console/%00": 404,
	} {
		w := ask(h, "GET", path, nil)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if w.Code == 308 && w.Header().Get("Location") != "console/" {
			t.Errorf("%s leads to %q", path, w.Header().Get("Location"))
		}
	}
	off := serve(false, "", httpapi.Development{})
	for _, path := range []string{"/console/", "/console", "/console/app.js"} {
		if w := ask(off, "GET", path, nil); w.Code != 404 {
			t.Errorf("off: %s: %d", path, w.Code)
		}
	}
	if w := ask(off, "GET", "/v1/outcomes", nil); w.Code != 501 {
		t.Errorf("off: outcomes: %d", w.Code)
	}
}

// TestBrowsersAreLedHere: GET / leads a browser to the console, behind a base path as well; to other programs, other
// methods and without the console it is no path, as ever.
func TestBrowsersAreLedHere(t *testing.T) {
	const chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	on, off := serve(true, "/leasehold", httpapi.Development{}), serve(false, "", httpapi.Development{})
	for _, x := range []struct {
		h                    http.Handler
		method, path, accept string
		want                 int
	}{
		{on, "GET", "/", chromium, 302}, {on, "HEAD", "/", chromium, 302}, {on, "GET", "/leasehold/", chromium, 302},
		{on, "GET", "/", "application/json, Text/HTML;q=0.5", 302}, {on, "GET", "/?x=1", chromium, 302},
		{on, "GET", "/", "*/*", 404}, {on, "GET", "/", "", 404}, {on, "GET", "/", "application/json", 404},
		{on, "GET", "/", "text/htmlx", 404}, {on, "POST", "/", chromium, 404}, {on, "GET", "/x", chromium, 404},
		{on, "GET", "//", chromium, 404}, {off, "GET", "/", chromium, 404},
	} {
		w := ask(x.h, x.method, x.path, http.Header{"Accept": {x.accept}})
		plain := ask(off, x.method, x.path, http.Header{"Accept": {x.accept}})
		switch {
		case w.Code != x.want:
			t.Errorf("%s %s, Accept %q: %d, want %d", x.method, x.path, x.accept, w.Code, x.want)
		case x.want == 302 && (w.Header().Get("Location") != "console/" || w.Header().Get("Vary") != "Accept"):
			t.Errorf("%s leads to %q, Vary %q", x.path, w.Header().Get("Location"), w.Header().Get("Vary"))
		case x.want == 404 && problem(w) != problem(plain):
			t.Errorf("%s %s: %s, without the console %s", x.method, x.path, problem(w), problem(plain))
		}
	}
	rebound := httptest.NewRequest(http.MethodGet, "http://evil.example/", nil)
	rebound.Header.Set("Accept", chromium)
	w := httptest.NewRecorder()
	if on.ServeHTTP(w, rebound); w.Code != 403 {
		t.Errorf("development mode under another name: %d", w.Code)
	}
}

// problem is a problem document without what is of one request.
func problem(w *httptest.ResponseRecorder) string {
	return regexp.MustCompile(`"instance":"[^"]*"`).ReplaceAllString(w.Body.String(), "")
}

func TestMethods(t *testing.T) {
	h := serve(true, "", httpapi.Development{})
	for _, path := range []string{"/console/", "/console", "/console/app.js"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if w := ask(h, method, path, nil); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	get, head := ask(h, "GET", "/console/", nil), ask(h, "HEAD", "/console/", nil)
	if head.Code != 200 || head.Body.Len() != 0 ||
		head.Header().Get("Content-Length") != get.Header().Get("Content-Length") {
		t.Errorf("HEAD: %d, %d bytes, %v", head.Code, head.Body.Len(), head.Header())
	}
}

// TestHeaders: browsers take the files for what they are, ask again before they use them, and let the page do nothing
// but what it needs.
func TestHeaders(t *testing.T) {
	h := serve(true, "", httpapi.Development{})
	for name, kind := range map[string]string{"": "text/html", "app.js": "text/javascript", "style.css": "text/css",
		"icon.svg": "image/svg+xml"} {
		w := ask(h, "GET", "/console/"+name, nil)
		for header, want := range map[string]string{
			"Content-Type": kind + "; charset=utf-8", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy":            "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		policy := strings.Split(w.Header().Get("Content-Security-Policy"), "; ")
		for _, want := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'",
			"base-uri 'none'", "form-action 'none'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			if !slices.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", name, policy, want)
			}
		}
		if strings.Contains(strings.Join(policy, " "), "unsafe") || len(policy) != 10 {
			t.Errorf("%s: the policy %q allows more", name, policy)
		}
		tag := w.Header().Get("ETag")
		for _, had := range []string{tag, `"other", W/` + tag} {
			if again := ask(h, "GET", "/console/"+name, http.Header{"If-None-Match": {had}}); again.Code != 304 ||
				again.Body.Len() != 0 {
				t.Errorf("%s with %s: %d, %d bytes", name, had, again.Code, again.Body.Len())
			}
		}
		if again := ask(h, "GET", "/console/"+name, http.Header{"If-None-Match": {`"other"`}}); again.Code != 200 {
			t.Errorf("%s with another tag: %d", name, again.Code)
		}
	}
}

// TestFilesAreOpen: a browser that has no token yet gets the page, and the API nothing.
func TestFilesAreOpen(t *testing.T) {
	h := serve(true, "", unknown{})
	if page, api := ask(h, "GET", "/console/", nil), ask(h, "GET", "/v1/caller", nil); page.Code != 200 ||
		api.Code != 401 {
		t.Errorf("page %d, API %d", page.Code, api.Code)
	}
	rebound := httptest.NewRequest(http.MethodGet, "http://evil.example/console/", nil)
	w := httptest.NewRecorder()
	if serve(true, "", httpapi.Development{}).ServeHTTP(w, rebound); w.Code != 403 {
		t.Errorf("development mode under another name: %d", w.Code)
	}
}

type unknown struct{}

func (unknown) Identify(*http.Request) (httpapi.Caller, error) {
	return httpapi.Caller{}, httpapi.Unauthenticated("no token")
}
func (unknown) Challenge() string { return "Bearer" }
func (unknown) Unverified() bool  { return false }

// TestFiles: all files together are small, refer to nothing outside, and have no markup that the policy would block.
func TestFiles(t *testing.T) {
	total := 0
	outside := regexp.MustCompile(`(?i)\b(?:https?|wss?):|["'(]//|@import|(?-i:\burl\()`)
	for _, f := range console.Files() {
		total += len(f.Content)
		text := string(f.Content)
		for _, namespace := range []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml",
			"http://www.w3.org/1998/Math/MathML"} {
			text = strings.ReplaceAll(text, namespace, "") // names, which nothing is fetched from
		}
		for _, at := range outside.FindAllStringIndex(text, -1) {
			t.Errorf("%s refers to something outside: …%s…", f.Name, text[max(0, at[0]-40):min(len(text), at[1]+40)])
		}
		if f.Name == "" && regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\son\w+=|\sstyle=`).MatchString(text) {
			t.Error("the page has scripts or styles of its own")
		}
	}
	if t.Logf("%d bytes", total); total > console.MaxBytes {
		t.Errorf("the files have %d bytes, %d at most", total, console.MaxBytes)
	}
}

// entry is a text of a table: its key, quoted or not, and the text.
var entry = regexp.MustCompile(`(?:'([^']+)'|\b(\w+)): '([^']*)'`)

// texts are the texts of a language.
func texts(t *testing.T, lang string) map[string]string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("src", lang+".js"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range entry.FindAllStringSubmatch(string(source), -1) {
		key := m[1] + m[2]
		if _, twice := all[key]; twice {
			t.Errorf("%s: %s is there twice", lang, key)
		}
		all[key] = m[3]
	}
	return all
}

// TestTables: both languages have the same texts with the same places to fill, one for each code of the API, and all
// that the page asks for.
func TestTables(t *testing.T) {
	en, ja := texts(t, "en"), texts(t, "ja")
	place := regexp.MustCompile(`\{\w+\}`)
	for key, text := range en {
		other, ok := ja[key]
		a, b := place.FindAllString(text, -1), place.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		if !ok || text == "" || other == "" || !slices.Equal(a, b) {
			t.Errorf("%s: %q, and in Japanese %q", key, text, other)
		}
	}
	for key := range ja {
		if _, ok := en[key]; !ok {
			t.Errorf("%s is in Japanese only", key)
		}
	}
	enum := regexp.MustCompile(`(?s)\n    Code:\n.*?enum:\n((?:        - [A-Z_]+\n)+)`).FindSubmatch(contracts.OpenAPI)
	codes := regexp.MustCompile(`- ([A-Z_]+)`).FindAllSubmatch(enum[1], -1)
	if len(codes) < 50 {
		t.Fatalf("%d codes", len(codes))
	}
	for _, c := range codes {
		if en["code."+string(c[1])] == "" {
			t.Errorf("the code %s is not explained", c[1])
		}
	}
	literal := regexp.MustCompile(`\bt\('([^']+)'\s*[,)]|\bt\([^()]*\? '([^']+)' : '([^']+)'`)
	sources, err := filepath.Glob("src/*.js")
	if err != nil || len(sources) < 10 {
		t.Fatal(sources, err)
	}
	for _, path := range sources {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(source), -1) {
			for _, key := range m[1:] {
				if _, ok := en[key]; !ok && key != "" {
					t.Errorf("%s asks for %q, which no table has", path, key)
				}
			}
		}
	}
}

// TestScreensInDocuments: each address of a screen that a document shows is one.
func TestScreensInDocuments(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("src", "app.js"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`const screens = \[([^\]]+)\]`).FindSubmatch(source)
	files := map[string]string{"locks": "now"} // their modules, where they have another name
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(list[1]), ", ") {
		if files[name] != "" {
			name = files[name]
		}
		module, err := os.ReadFile(filepath.Join("src", name+".js"))
		if err != nil || !strings.Contains(string(module), "export default { id: '"+name+"'") {
			t.Errorf("the screen %s: %v", name, err)
		}
		known[name] = true
	}
	seen := 0
	for _, name := range []string{"runbook.md", "console.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", "guides", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`/console/#/(\w+)`).FindAllStringSubmatch(string(text), -1) {
			if seen++; !known[m[1]] {
				t.Errorf("%s: there is no screen %s", name, m[1])
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d addresses of screens were found", seen)
	}
}
