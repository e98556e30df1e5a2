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

// NotImplemented answers 501. It stands for functions that this version does not have: the contract knows neither their
// paths nor a code for them.
func NotImplemented(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusNotImplemented, map[string]any{
		"type": "about:blank", "title": "Not Implemented", "status": http.StatusNotImplemented,
		"detail": "this version of Leasehold has locks only; deploy the function API",
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
