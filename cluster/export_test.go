package cluster

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// WithClock makes a member read this clock.
func (o Options) WithClock(now func() time.Time) *Options {
	o.clock = func() term.Moment { return term.Of(now()) }
	return &o
}

// Remembered is of how many identities it is known that their activations failed, after so many failures.
func Remembered(failed int) int {
	var f failures
	for i := range failed {
		_ = f.failed(Identity{"room", strconv.Itoa(i)}, ErrLost)
	}
	return len(f.all)
}

// AnswerTo is the header by which a member that knows a secret answers to a forwarded request, and whether that only asks.
func AnswerTo(secret []byte, r *http.Request) (name, value string, ask bool) {
	payload, _, _ := strings.Cut(r.Header.Get(headerHop), ".")
	text, _ := base64.RawURLEncoding.DecodeString(payload)
	p := hop{payload: payload}
	_ = json.Unmarshal(text, &p)
	h := &Handler{o: HandlerOptions{Secret: secret}}
	return headerAnswer, h.answerTo(&p, answerServed), p.Ask
}

// SignHop makes a request one that a member has forwarded to an incarnation of a cluster.
func SignHop(secret []byte, r *http.Request, cluster, to string, incarnation int64, id Identity) {
	h := &Handler{o: HandlerOptions{Secret: secret}}
	p := hop{Cluster: cluster, To: to, Incarnation: incarnation, Kind: id.Kind, ID: id.ID, Nonce: "n"}
	_ = p.seal()
	h.signed(r, &p)
	r.RequestURI = r.URL.RequestURI()
}
