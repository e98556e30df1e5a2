package tasks

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// MaxMessageBytes bounds a message: the largest that Cloud Tasks and SQS carry.
const MaxMessageBytes = 1 << 20

// errMalformed marks a message that names no analysis.
var errMalformed = errors.New("the message cannot be used")

// analysisID reads the name of the analysis from a message, or from the message in a notification of Amazon SNS.
// Members beside it are the sender's business; a name that is given twice is not, because two readers could take it for
// different ones.
func analysisID(body []byte) (analysis.ID, error) {
	if inner, ok := notification(body); ok {
		body = inner
	}
	return plainID(body)
}

// notification unwraps what SNS puts around a message on its way into a queue.
func notification(body []byte) (inner []byte, ok bool) {
	var m struct {
		Type    string
		Message *string
	}
	if len(body) > MaxMessageBytes || !bytes.Contains(body, []byte(`"Notification"`)) ||
		jsonv2.Unmarshal(body, &m) != nil {
		return nil, false
	}
	if m.Type != "Notification" || m.Message == nil {
		return nil, false
	}
	return []byte(*m.Message), true
}

func plainID(body []byte) (analysis.ID, error) {
	if len(body) > MaxMessageBytes {
		return "", fmt.Errorf("%w: it has more than %d bytes", errMalformed, MaxMessageBytes)
	}
	var m struct {
		AnalysisID *string `json:"analysisId"`  // as the producers of the requirement spell it
		Snake      *string `json:"analysis_id"` // as the HTTP API does
	}
	const like = `send a JSON object such as {"analysisId":"a1"}`
	err := jsonv2.Unmarshal(body, &m)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %s: %w", errMalformed, like, err)
	case m.AnalysisID == nil && m.Snake == nil:
		return "", fmt.Errorf("%w: analysisId is missing or no text: %s", errMalformed, like)
	case m.AnalysisID != nil && m.Snake != nil:
		return "", fmt.Errorf("%w: it has both analysisId and analysis_id: %s", errMalformed, like)
	}
	id := analysis.ID(*cmp.Or(m.AnalysisID, m.Snake))
	if err := id.Validate(); err != nil {
		return "", fmt.Errorf("%w: %w", errMalformed, err)
	}
	return id, nil
}

// owner names the delivery for people who look at the lock: the message and its delivery. Two deliveries of the same
// name are told apart by the request ID of their acquire, and then by the token.
func (m Message) owner() string {
	try := m.Try
	if try == "" {
		try = rand.Text()
	}
	return visible(m.ID, analysis.MaxOwnerBytes-65) + "#" + visible(try, 64)
}

// visible is text from a queue as a name: printable ASCII, and not at any length.
func visible(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), most)]
}
