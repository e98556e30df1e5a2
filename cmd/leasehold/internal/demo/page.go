package demo

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/process"
	"github.com/leasehold-dev/leasehold/console"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/price"
)

//go:generate go run github.com/evanw/esbuild/cmd/esbuild@v0.28.2 src/app.js src/style.css --bundle --minify --format=esm --target=es2022 --charset=utf8 --legal-comments=none --log-level=warning --outdir=assets
//go:embed assets
var assets embed.FS

// Paths of the page.
const (
	pagePath    = "/demo/"
	accountPath = pagePath + "account/"
)

// routes are the page's endpoints. What they have in common with those of the API, they have from it: they are
// for this machine only, and for no page of another site.
func (p *page) routes() []httpapi.Route {
	var all []httpapi.Route
	for _, f := range console.Load(assets) {
		path := pagePath + f.Name
		if f.Name == "" {
			path += "{$}"
		}
		all = append(all, httpapi.Route{Method: http.MethodGet, Path: path, Routine: true,
			Do: func(w http.ResponseWriter, r *http.Request) error {
				f.ServeHTTP(w, r)
				return nil
			}})
	}
	post := func(path string, do func(http.ResponseWriter, *http.Request) error) {
		all = append(all, httpapi.Route{Method: http.MethodPost, Path: pagePath + path, Routine: true, Do: do})
	}
	all = append(all, httpapi.Route{Method: http.MethodGet, Path: pagePath + "state", Routine: true, Do: p.show})
	post("workers/{worker}/{action}", p.press)
	post("reset", p.reset)
	post("account/begin", p.begin)
	post("account/read", p.read)
	post("account/write", p.write)
	return append(all, httpapi.Route{Method: http.MethodPost, Path: pagePath + "check", Routine: true, Timeout: checkTime,
		Do: p.check})
}

// checkTime is what all scenes may take together.
const checkTime = 5 * time.Minute

// check plays the scenes. The response is what Check writes for machines, line by line as it happens.
func (p *page) check(w http.ResponseWriter, r *http.Request) error {
	var none struct{}
	if err := receive(w, r, &none); err != nil {
		return err
	}
	if !p.checking.TryLock() {
		return contracts.Errorf(contracts.CodeUnavailable, "the checks are running already, see the other window")
	}
	defer p.checking.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := lineWriter{w}
	if err := Check(r.Context(), out, Options{Executable: p.executable, Listen: AnyPort, JSON: true}); err != nil &&
		!errors.Is(err, ErrBroken) { // which the last line says
		return json.NewEncoder(out).Encode(map[string]string{"error": err.Error()})
	}
	return nil
}

// lineWriter sends each line at once.
type lineWriter struct{ http.ResponseWriter }

func (w lineWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	return n, errors.Join(err, http.NewResponseController(w.ResponseWriter).Flush())
}

// keptEvents is how much the page says of what happened.
const keptEvents = 8

// event is something that happened, for the page to say in a sentence.
type event struct {
	ID     int    `json:"id"`
	Kind   string `json:"kind"`
	Worker string `json:"worker,omitempty"`
	Other  string `json:"other,omitempty"`
	Token  int64  `json:"token,omitempty"`
	Higher int64  `json:"higher,omitempty"` // token of the other
	Base   int64  `json:"base"`             // the balance that the worker has read
	Off    int64  `json:"off"`
	Ms     int64  `json:"ms"`
	Held   bool   `json:"held,omitempty"`
}

func (p *page) tell(e event) {
	p.told++
	e.ID = p.told
	p.story = slices.Insert(p.story, 0, e)
	p.story = p.story[:min(len(p.story), keptEvents)]
}

// nth is a token as people count: the first lease has 1.
func (p *page) nth(token int64) int64 {
	if token == 0 {
		return 0
	}
	return token - p.first + 1
}

// shown is a worker as the page shows it.
type shown struct {
	Name    string `json:"name"`
	State   state  `json:"state"`
	PID     int    `json:"pid"`
	Skew    int64  `json:"skew_ms"`
	Armed   bool   `json:"armed"`
	Lose    bool   `json:"lose"`
	Token   int64  `json:"token,omitempty"`      // while its lease may last
	Expires string `json:"expires_at,omitempty"` // of that lease
	Base    *int64 `json:"base,omitempty"`       // the balance that it has read, if it is frozen
	Passed  bool   `json:"passed"`               // another has paid in since
}

// overview is what the page asks for a few times a second. It asks nothing of the store.
type overview struct {
	At        string  `json:"at"`
	Round     int     `json:"round"`
	TTL       int64   `json:"ttl_seconds"`
	CanFreeze bool    `json:"can_freeze"`
	Story     []event `json:"story"` // the latest first
	Workers   []shown `json:"workers"`
	Unfenced  account `json:"unfenced"`
	Fenced    account `json:"fenced"`
	Cost      cost    `json:"cost"`
	Turns     int     `json:"turns"` // that Cost is of
}

// cost is what the store was used for.
type cost struct {
	Requests int     `json:"requests"`
	Writes   float64 `json:"writes"` // units
	Reads    float64 `json:"reads"`
	Dollars  float64 `json:"dollars"`
	Store    string  `json:"store"`
	AsOf     string  `json:"as_of"`
}

func (p *page) cost() cost {
	c := cost{Store: price.DynamoDB.Name, AsOf: price.AsOf}
	for _, n := range p.emulator.Requests() {
		c.Requests += n
	}
	u := p.emulator.Consumed()
	c.Writes, c.Reads = u.Write, u.Read
	c.Dollars = price.DynamoDB.Dollars(u.Write, u.Read) / 1e6
	return c
}

// counted is an account with tokens as people count them.
func (p *page) counted(a account) account {
	rows := make([]row, len(a.Rows))
	for i, r := range a.Rows {
		r.Token = p.nth(r.Token)
		rows[i] = r
	}
	a.Rows = rows
	if a.Worst != nil {
		r := *a.Worst
		r.Token = p.nth(r.Token)
		a.Worst = &r
	}
	return a
}

func (p *page) show(w http.ResponseWriter, _ *http.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.respond(w)
}

// respond sends the state. mu is held.
func (p *page) respond(w http.ResponseWriter) error {
	o := overview{
		At: time.Now().UTC().Format(contracts.TimeFormat), Round: p.round, TTL: int64(ttl / time.Second),
		CanFreeze: process.CanStop, Story: p.story,
		Unfenced: p.counted(p.unfenced.account), Fenced: p.counted(p.fenced.account), Cost: p.cost(), Turns: p.turns,
	}
	for _, h := range p.workers {
		s := shown{Name: h.Name, State: h.State, PID: h.PID, Skew: h.Skew, Armed: h.Armed, Lose: h.Lose, Passed: h.passed}
		if s.State == frozen {
			s.Base = &h.base
		}
		if s.State == paying {
			s.State = working // it takes no time that one could see
		}
		if h.inTurn() || h.State == dead && h.lost {
			s.Token, s.Expires = p.nth(h.token), h.expires.UTC().Format(contracts.TimeFormat)
		}
		o.Workers = append(o.Workers, s)
	}
	return send(w, o)
}

func send(w http.ResponseWriter, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b) // an error means that the client is gone
	return nil
}

// receive reads a body of JSON.
func receive(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, httpapi.MaxBodyBytes)).Decode(into); err != nil {
		return contracts.Errorf(contracts.CodeInvalidArgument,
			"the body must be JSON as the page and the workers send it: %v", err)
	}
	return nil
}

// find returns a worker. mu is held.
func (p *page) find(name string) (*hired, error) {
	for _, h := range p.workers {
		if h.Name == name {
			return h, nil
		}
	}
	return nil, contracts.Errorf(contracts.CodeNotFound, "there is no worker %.20q: they are %v", name, names)
}

// alive returns a worker that has a process: a request that a dead one has sent before changes nothing about it. mu is
// held.
func (p *page) alive(name string) (*hired, error) {
	h, err := p.find(name)
	if err == nil && h.State == dead {
		err = contracts.Errorf(contracts.CodeUnavailable, "worker %s is dead", name)
	}
	return h, err
}

// press is a button, or the slider.
func (p *page) press(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Ms int64 `json:"ms"` // for skew
	}
	if err := receive(w, r, &body); err != nil {
		return err
	}
	action := r.PathValue("action")
	switch action {
	case "freeze", "continue", "kill", "start", "lose", "skew":
	default:
		return contracts.Errorf(contracts.CodeNotFound, "there is no action %.20q", action)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.find(r.PathValue("worker"))
	if err != nil {
		return err
	}
	if err := p.act(h, action, body.Ms); err != nil {
		return err
	}
	return p.respond(w)
}

// reset begins anew, with both accounts empty and all workers at work.
func (p *page) reset(w http.ResponseWriter, r *http.Request) error {
	var none struct{}
	if err := receive(w, r, &none); err != nil {
		return err
	}
	if err := p.startAll(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round++
	p.unfenced, p.fenced = &unfenced{account: newAccount()}, &fenced{account: newAccount()}
	p.story = []event{}
	return p.respond(w)
}

// begin is what a worker sends when it has the lock.
type begin struct {
	Worker  string `json:"worker"`
	Token   int64  `json:"token"`
	LeaseMs int64  `json:"lease_ms"` // what is left of the lease
}

func (p *page) begin(w http.ResponseWriter, r *http.Request) error {
	var in begin
	if err := receive(w, r, &in); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.alive(in.Worker)
	if err != nil {
		return err
	}
	// Who has the lock shows its token at once: from here on no older one can write what it read before.
	if _, _, err := p.ask(r.Context(), in.Token); err != nil {
		return err
	}
	if p.first == 0 {
		p.first = in.Token
	}
	h.State, h.token, h.expires = working, in.Token, time.Now().Add(time.Duration(in.LeaseMs)*time.Millisecond)
	h.woken, h.passed, h.lost = false, false, false
	return send(w, struct{}{})
}

// read is what a worker sends when its work is done, to read both accounts.
type read struct {
	Worker string `json:"worker"`
}

// balances are the response.
type balances struct {
	Round    int   `json:"round"`
	Unfenced int64 `json:"unfenced"`
	Fenced   int64 `json:"fenced"`
}

func (p *page) read(w http.ResponseWriter, r *http.Request) error {
	var in read
	if err := receive(w, r, &in); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.alive(in.Worker)
	if err != nil {
		return err
	}
	// One that was woken writes first, so that what it overwrites stays overwritten, however fast the processes are.
	for p.any(h, func(o *hired) bool { return o.woken && o.State == paying }) {
		p.changed.Wait()
	}
	seen := balances{p.round, p.unfenced.Balance, p.fenced.Balance}
	h.State, h.base = paying, p.fenced.Balance
	if h.Armed {
		if err := h.process.freeze(); err != nil {
			return err
		}
		h.Armed, h.State = false, frozen
		p.tell(event{Kind: "frozen", Worker: h.Name, Token: p.nth(h.token), Base: h.base})
	}
	return send(w, seen) // one that is frozen finds it when it wakes up
}

func (p *page) write(w http.ResponseWriter, r *http.Request) error {
	var in write
	if err := receive(w, r, &in); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.find(in.Worker)
	if err != nil {
		return err
	}
	passed, highest, err := p.ask(r.Context(), in.Token)
	if err != nil {
		return err
	}
	defer p.changed.Broadcast()
	woken := h.woken
	if h.woken = false; h.State == paying {
		h.State = waiting
	}
	p.turns++
	if in.Round != p.round {
		return send(w, struct{}{})
	}
	without, with := p.unfenced.write(in), p.fenced.write(in, passed)
	e := event{Worker: h.Name, Token: p.nth(in.Token), Higher: p.nth(highest), Base: in.Fenced, Off: without.Off}
	switch {
	case with.Outcome == stale && woken:
		e.Kind = "stale"
	case with.Outcome == stale:
		e.Kind = "late"
	case with.Outcome == repeated:
		e.Kind = "repeated"
	case woken:
		e.Kind = "early"
	case without.Outcome == ignored && (len(p.story) == 0 || p.story[0].Kind != "ignored"):
		e.Kind = "ignored"
	}
	lost := h.Lose && with.Outcome == applied
	if lost {
		h.Lose, h.State, e.Kind = false, working, "lost"
	}
	if e.Kind != "" {
		p.tell(e)
	}
	if lost {
		panic(http.ErrAbortHandler) // the connection is closed: what was done is done, and no one is told
	}
	if with.Outcome == applied {
		p.overtake(h, in.Token)
	}
	return send(w, struct{}{})
}

// overtake tells once of each worker that is frozen or dead with the lock in its hand that another has paid in since.
func (p *page) overtake(h *hired, token int64) {
	for _, o := range p.workers {
		held := o.State == frozen || o.State == dead && o.lost
		if o == h || !held || o.passed || token < o.token {
			continue
		}
		o.passed = true
		kind := "overtaken"
		if o.State == dead {
			kind = "inherited"
		}
		p.tell(event{Kind: kind, Worker: o.Name, Other: h.Name, Token: p.nth(o.token), Higher: p.nth(token), Base: o.base})
	}
}

// any reports whether something holds for another worker.
func (p *page) any(h *hired, holds func(*hired) bool) bool {
	return slices.ContainsFunc(p.workers, func(o *hired) bool { return o != h && holds(o) })
}

// ask asks the fence about a token. If it is stale, the highest one is returned.
func (p *page) ask(ctx context.Context, token int64) (passed bool, highest int64, err error) {
	_, err = p.fences.Check(ctx, pageTenant, accountKey, fencing.OfLock(accountKey, 0, token))
	if refused, ok := errors.AsType[*contracts.Error](err); ok && refused.Code == contracts.CodeStaleToken {
		return false, refused.HighestToken, nil
	}
	return err == nil, 0, err
}
