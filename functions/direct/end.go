package direct

import (
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// notAfter is the name of the end of a request.
const notAfter = "not_after"

// endOf reads the end of a request, which its body has under that name: a time in RFC 3339, empty for none. What is
// below a millisecond is cut off. The error is a [field.Error].
func endOf(name, text string) (rule.End, error) {
	if text == "" {
		return rule.End{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return rule.End{}, field.Errorf(name, "must be a time in RFC 3339, such as %s, which it is now",
			docstore.FormatTime(time.Now()))
	}
	if t.Unix() < 0 { // the zero time would be no end
		t = time.Unix(0, 0)
	}
	return rule.End{NotAfter: docstore.TruncateMilli(t)}, nil
}

// endRejection is the rejection of a request because of its end, the member name: that it came too late, or that it is
// further away than it may be. at is the store's time. It is nil for other codes.
func endRejection[C ~string](code C, name, detail string, at time.Time) *contracts.Error {
	var e *contracts.Error
	switch string(code) {
	case rule.TooLate:
		e = contracts.Errorf(contracts.CodeTooLate, "%s", detail)
	case rule.TooFar:
		e = contracts.Errorf(contracts.CodeInvalidArgument, "%s: %s", name, detail)
	default:
		return nil
	}
	e.Field, e.StoreTime = name, at
	return e
}
