package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// nextPage is what follows the entries of a page.
type nextPage struct {
	Token string `json:"next_page_token,omitempty"`
}

// sendList responds with a page of a list to a known caller: {"name":[…],"next_page_token":"…"}. It waits for its share
// of the memory of all pages and for its turn, reads the page, and writes it entry by entry: beside the page, a caller
// that reads slowly keeps the JSON of one entry in memory, and nothing else from others. After read nothing can fail
// but the connection, so that a 200 is a whole page. What was read counts for the rates of the caller.
//
// read returns the entries and the members that follow them in the page; body is how the contract shows an entry.
func sendList[T, B any](a *api, w http.ResponseWriter, r *http.Request, name string, body func(T) B,
	read func(context.Context) (entries []T, rest any, cost page.Cost, err error),
) error {
	send, err := readList(a, r, name, body, read)
	if err != nil {
		return err
	}
	send(w)
	return nil
}

// readList is the part of [sendList] before the response. What it returns is called once, and writes that.
func readList[T, B any](a *api, r *http.Request, name string, body func(T) B,
	read func(context.Context) (entries []T, rest any, cost page.Cost, err error),
) (send func(http.ResponseWriter), err error) {
	n, share := noteOf(r), int64(pageReading)
	if err := a.admission.pages.enter(r.Context(), n.party, share); err != nil {
		return nil, err
	}
	defer func() {
		if send == nil {
			a.admission.pages.leave(n.party, share)
		}
	}()
	var (
		entries []T
		rest    any
		cost    page.Cost
	)
	err = a.admission.lists.with(r.Context(), n.party, func() (err error) {
		entries, rest, cost, err = read(r.Context())
		return err
	})
	if err != nil {
		return nil, err
	}
	sending := min(max(int64(cost.Kept), pageLeast), share)
	a.admission.pages.leave(n.party, share-sending)
	share = sending
	a.admission.charge(n.caller, n.party.tenant, cost.Read/pageLeast)
	return func(w http.ResponseWriter) {
		defer a.admission.pages.leave(n.party, share)
		writePage(w, name, entries, rest, body)
	}, nil
}

// writePage writes the entries one after the other. HTML is not escaped: browsers do not take the response for a page,
// and text would grow to six times its size.
func writePage[T, B any](w http.ResponseWriter, name string, entries []T, rest any, body func(T) B) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(http.StatusOK)

	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	encode := func(v any) {
		if err := e.Encode(v); err != nil {
			panic(fmt.Errorf("encode %T: %w", v, err)) // text, numbers and tables of text have no such error
		}
		b.Truncate(b.Len() - 1) // the line's end
	}
	fmt.Fprintf(&b, "{%q:[", name)
	for i := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		encode(body(entries[i]))
		entries[i] = *new(T) // what was sent is not kept
		if _, err := w.Write(b.Bytes()); err != nil {
			return // the caller is gone
		}
		b.Reset()
	}
	b.WriteByte(']')
	begin := b.Len()
	encode(rest)
	if members := b.Bytes()[begin:]; len(members) > len("{}") {
		members[0] = ','
	} else {
		b.Truncate(begin)
		b.WriteByte('}')
	}
	b.WriteByte('\n')
	_, _ = w.Write(b.Bytes()) // an error means that the caller is gone
}

// mostLogged bounds the documents that one line of the log names.
const mostLogged = 20

// passed counts documents of a page that cannot be read, and says in one line of the log what is wrong with the first
// of them.
func (a *api) passed(r *http.Request, what string, damaged []docstore.Damaged) {
	if len(damaged) == 0 {
		return
	}
	a.unreadable(r, len(damaged))
	texts := make([]string, 0, mostLogged)
	for _, d := range damaged[:min(len(damaged), mostLogged)] {
		texts = append(texts, d.Err.Error())
	}
	a.log.WarnContext(r.Context(), "documents of a list cannot be read", "what", what, "count", len(damaged), "err",
		strings.Join(texts, "; "))
}
