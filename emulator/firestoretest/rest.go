package firestoretest

import (
	"io"
	"net/http"

	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/emulator/internal/grpcserver"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// serveREST responds to callers of HTTP/1 on the port: a health check, and the official emulator's call that removes all
// documents. Everything else is rejected by name.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request) {
	if !s.options.InsecureListenAnywhere {
		if err := loopback.CheckHost(r); err != nil {
			grpcserver.Errorf(w, http.StatusMisdirectedRequest, "FAILED_PRECONDITION", "%v", err)
			return
		}
	}
	s.rest.ServeHTTP(w, r)
}

func (s *Server) restMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Ok\n") })
	mux.HandleFunc("DELETE /emulator/v1/projects/{project}/databases/{database}/documents", s.clear)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		grpcserver.Errorf(w, http.StatusNotImplemented, "UNIMPLEMENTED", "%s %s is not supported by this emulator: it speaks gRPC, and of REST it "+
			"has only DELETE /emulator/v1/projects/{project}/databases/{database}/documents", r.Method, r.URL.Path)
	})
	return mux
}

// clear removes all documents of a database and closes its transactions.
func (s *Server) clear(w http.ResponseWriter, r *http.Request) {
	db, err := s.database("projects/" + r.PathValue("project") + "/databases/" + r.PathValue("database"))
	if err != nil {
		grpcserver.Errorf(w, http.StatusNotFound, "NOT_FOUND", "%s", status.Convert(err).Message())
		return
	}
	db.reset()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}\n") // the client that hung up does not mind
}
