package httpapi

import (
	"compress/gzip"
	"net/http"
	"strings"
)

// compressFrom is from how many members on a response is compressed: fewer fit into a packet or two.
const compressFrom = 16

// compressed is a response of which the body is compressed if the caller wants that. Lists of members shrink to a
// tenth.
type compressed struct {
	http.ResponseWriter

	wanted bool
	gzip   *gzip.Writer // nil until the body begins
}

// WriteHeader implements [http.ResponseWriter].
func (w *compressed) WriteHeader(status int) {
	if w.wanted && status == http.StatusOK {
		w.Header().Set("Content-Encoding", "gzip")
		w.gzip, _ = gzip.NewWriterLevel(w.ResponseWriter, gzip.BestSpeed) // the level is one
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *compressed) Write(b []byte) (int, error) {
	if w.gzip != nil {
		return w.gzip.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *compressed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// close writes what is left.
func (w *compressed) close() {
	if w.gzip != nil {
		_ = w.gzip.Close() // an error is that of a caller that is gone
	}
}

// takesGzip reports whether an Accept-Encoding header names gzip, and not with a weight of 0.
func takesGzip(header string) bool {
	for e := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(e, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), " ")
			return q == "" || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
