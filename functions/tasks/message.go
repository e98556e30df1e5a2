package tasks

import (
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

// analysisID reads the name of the analysis from a message. Members beside it are the sender's business; a name that is
// given twice is not, because two readers could take it for different ones.
func analysisID(body []byte) (analysis.ID, error) {
	if len(body) > MaxMessageBytes {
		return "", fmt.Errorf("%w: it has more than %d bytes", errMalformed, MaxMessageBytes)
	}
	var m struct {
		AnalysisID *string `json:"analysisId"`
	}
	if err := jsonv2.Unmarshal(body, &m); err != nil {
		return "", fmt.Errorf(`%w: it must be a JSON object such as {"analysisId":"a1"}: %w`, errMalformed, err)
	}
	if m.AnalysisID == nil {
		return "", fmt.Errorf(`%w: it has no text member analysisId: send a JSON object such as {"analysisId":"a1"}`, errMalformed)
	}
	id := analysis.ID(*m.AnalysisID)
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
