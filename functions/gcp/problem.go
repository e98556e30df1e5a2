package gcp

import (
	"encoding/json"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
)

// problem answers with a problem document (RFC 9457) of the contract.
func problem(w http.ResponseWriter, code contracts.Code, detail string) {
	info, _ := code.Info()
	send(w, info.Status, contracts.Problem{
		Type: code.TypeURI(), Title: info.Title, Status: info.Status, Code: code, Retryable: info.Retryable, Detail: detail,
	})
}

func send(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error here means that the caller is gone; there is nobody left to tell.
	_, _ = w.Write(append(b, '\n'))
}
