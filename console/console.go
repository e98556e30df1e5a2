// Package console is the web page for people who operate Leasehold: who holds what, what was refused and why, what is
// about to run out.
//
// # What it is
//
// A few files in the program, without a server of their own. The page calls the HTTP API with the token of the person
// who looks at it, so that it shows and changes what that token may, and nothing else. It has no rights, no cookies and
// no state on the server.
//
//	GET /console/ ─▶ page, script, style (this package)
//	                   └─▶ GET /v1/… every few seconds, POST /v1/… when an administrator asks for it (package httpapi)
//
// # Sources
//
// src has the page's modules; `go generate` bundles them into assets, which are what is served: with all texts they
// have to stay below [MaxBytes]. src/vendor has preact and htm as they are on npm; .ci/run compares them with the
// packages of the lock file.
//
// # What can go wrong
//
// The page shows names and labels that others chose. They are text nodes, never markup: the policy of [File.ServeHTTP]
// forbids inline scripts, other origins and the browser's functions that parse markup, and a test puts hostile names on
// every screen.
package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:generate go run github.com/evanw/esbuild/cmd/esbuild@v0.28.2 src/app.js src/style.css --bundle --minify --format=esm --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning --outdir=assets
//go:embed assets
var assets embed.FS

// MaxBytes is what all files have together at most.
const MaxBytes = 130_000

// policy allows the page its own script, style and icon, and requests to its own origin. The browser then refuses
// everything else, also what would parse text as markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// File is a file of the console.
type File struct {
	Name    string // under the page's path; empty for the page itself
	Content []byte

	kind, tag string
}

// Files returns the files of the console.
func Files() []File { return Load(assets) }

// Load returns the files of the folder assets of a page, to be served as those of the console are. It panics if there
// is none: it is to be in the program.
func Load(page fs.FS) []File {
	entries, err := fs.ReadDir(page, "assets")
	if err != nil {
		panic(err)
	}
	kinds := map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
	files := make([]File, len(entries))
	for i, e := range entries {
		content, err := fs.ReadFile(page, "assets/"+e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		files[i] = File{
			Name: strings.TrimSuffix(e.Name(), "index.html"), Content: content,
			kind: kinds[path.Ext(e.Name())] + "; charset=utf-8",
			tag:  fmt.Sprintf("%q", base64.RawURLEncoding.EncodeToString(sum[:12])),
		}
	}
	return files
}

// ServeHTTP sends the file, or 304 to a browser that has it.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache") // to be kept, and asked for again: a new version is seen at once
	h.Set("ETag", f.tag)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimSpace(tag); strings.TrimPrefix(tag, "W/") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.Content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(f.Content) // an error means that the browser is gone
	}
}

// Redirect sends browsers from /console to /console/. The location is relative, so that it is right behind a proxy that
// adds a path in front.
func Redirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "console/")
	w.WriteHeader(http.StatusPermanentRedirect)
}
