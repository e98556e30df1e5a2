package main

import (
	"slices"

	"github.com/leasehold-dev/leasehold/contracts"
)

// errorVectors are the codes, and responses with what a client makes of each.
type errorVectors struct {
	Comment   string     `json:"comment"`
	Codes     []code     `json:"codes"`
	Responses []response `json:"responses"`
}

type code struct {
	Code      contracts.Code `json:"code"`
	Status    int            `json:"status"`
	Retryable bool           `json:"retryable"`
	Final     bool           `json:"final"`
	Title     string         `json:"title"`
}

// response is a problem with a code, or a page without one.
type response struct {
	Status        int            `json:"status"`
	Page          string         `json:"page,omitempty"` // the content type
	Code          contracts.Code `json:"code,omitempty"`
	Retryable     *bool          `json:"retryable,omitempty"`
	Final         bool           `json:"final"`
	Configuration bool           `json:"configuration"`
}

func errorsOf(order []contracts.Code) errorVectors {
	v := errorVectors{
		Comment: "The error codes, and what a client makes of responses. README.md beside this file explains them. Generated: make generate.",
	}
	yes, no := new(bool), new(bool)
	*yes = true
	for _, c := range order {
		info, _ := c.Info()
		v.Codes = append(v.Codes, code{c, info.Status, info.Retryable, info.Final, info.Title})
		for _, retryable := range []*bool{nil, yes, no} {
			v.Responses = append(v.Responses, judged(response{Status: info.Status, Code: c, Retryable: retryable}))
		}
	}
	for _, status := range []int{400, 401, 403, 404, 408, 409, 425, 429, 499, 500, 501, 502, 503, 504, 599} {
		for _, retryable := range []*bool{nil, yes, no} {
			v.Responses = append(v.Responses,
				judged(response{Status: status, Code: "CODE_OF_A_LATER_VERSION", Retryable: retryable}))
		}
		// without a code, whatever it says to be
		for _, page := range []string{"text/html", "application/json", "application/problem+json"} {
			v.Responses = append(v.Responses, judged(response{Status: status, Page: page}))
		}
	}
	for _, status := range []int{200, 302} {
		v.Responses = append(v.Responses, judged(response{Status: status, Page: "text/html"}))
	}
	return v
}

// judged says the rule a second time, apart from the code that the clients use: it is what they are compared with.
func judged(r response) response {
	later := []int{408, 425, 429}
	if r.Code == "" {
		r.Configuration = (r.Status < 500 || r.Status == 501) && !slices.Contains(later, r.Status)
		return r
	}
	info, known := r.Code.Info()
	retryable := info.Retryable || !known && slices.Contains(later, r.Status)
	if r.Retryable != nil {
		retryable = *r.Retryable
	}
	r.Final = !retryable && (r.Status/100 == 4 || r.Status == 501 || r.Code == contracts.CodeDocumentDamaged)
	r.Configuration = r.Final && r.Code != contracts.CodeDocumentDamaged
	return r
}
