package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Player serves scripts over HTTP, to runners in any language. Runs do not disturb each other.
//
//	GET  /scripts                  the scripts, with their names and levels; ?level=core only those of that level
//	POST /runs                     {"script": "…"} begins a run: {"run": URL for the next lines, "base_url": for the client under test}
//	GET  <run>                     {"waiting": how many requests wait for their step}; ?arrival=SECONDS waits for one
//	POST <run>/steps/<i>           takes step i, with what the runner observed: {"ok": …, "failures": […]}
//	POST <run>/end                 ends the run: {"passed": …, "failures": […]}
type Player struct {
	// StepTimeout is how long a step waits for its request in true time; 0 means [StepTimeout]. Set it before the first
	// use.
	StepTimeout time.Duration

	scripts []*Script
	mux     *http.ServeMux

	mu    sync.Mutex
	runs  []*Run
	bound net.Conn // to the player itself, see refusing
}

// StepTimeout is how long a step waits for its request in true time, unless [Player].StepTimeout says otherwise. It
// bounds how long a client that sends nothing takes to fail; it is not part of any script.
const StepTimeout = 30 * time.Second

// NewPlayer returns a player of all scripts.
func NewPlayer() (*Player, error) {
	all, err := Scripts()
	if err != nil {
		return nil, err
	}
	p := &Player{scripts: all, mux: http.NewServeMux()}
	p.mux.HandleFunc("GET /scripts", p.list)
	p.mux.HandleFunc("POST /runs", p.begin)
	p.mux.HandleFunc("GET /runs/{run}", p.state)
	p.mux.HandleFunc("POST /runs/{run}/steps/{step}", p.step)
	p.mux.HandleFunc("POST /runs/{run}/end", p.end)
	return p, nil
}

// ServeHTTP serves runners, and the clients under test.
func (p *Player) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	// No connection is used twice, that of a runner's own requests neither: if a connection that was used before ends
	// without an answer, many HTTP clients send the request again by themselves, POST included, and the player would see
	// requests that the client under test knows nothing of.
	w.Header().Set("Connection", "close")
	// What a client sends goes to its run as it is, without the cleaning of paths by the mux.
	if rest, ok := strings.CutPrefix(q.URL.EscapedPath(), "/runs/"); ok {
		if id, path, ok := strings.Cut(rest, "/server"); ok && !strings.Contains(id, "/") && strings.HasPrefix(path, "/") {
			r, err := p.run(id)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			own := q.Clone(q.Context())
			own.URL.Path, own.URL.RawPath = strings.TrimPrefix(q.URL.Path, "/runs/"+id+"/server"), path
			r.ServeHTTP(w, own)
			return
		}
	}
	p.mux.ServeHTTP(w, q)
}

func (p *Player) list(w http.ResponseWriter, q *http.Request) {
	type leveled struct {
		*Script

		Level Level `json:"level"`
	}
	only, all := Level(q.FormValue("level")), []leveled{}
	for _, s := range p.scripts {
		if only == "" || only == s.Level() {
			all = append(all, leveled{s, s.Level()})
		}
	}
	if only == Core { // in the order in which they can be made to pass
		slices.SortFunc(all, func(a, b leveled) int { return slices.Index(core, a.Name) - slices.Index(core, b.Name) })
	}
	respond(w, http.StatusOK, map[string]any{"start": stamp(0), "scripts": all})
}

func (p *Player) begin(w http.ResponseWriter, q *http.Request) {
	var asked struct {
		Script string `json:"script"`
	}
	if err := json.NewDecoder(q.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, s := range p.scripts {
		if s.Name != asked.Script {
			continue
		}
		var refused string
		if s.Client.Refused {
			var err error
			if refused, err = p.refusing(q.Context(), q.Host); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		p.mu.Lock()
		at := fmt.Sprintf("http://%s/runs/%d", q.Host, len(p.runs)+1)
		base := cmp.Or(refused, at+"/server")
		p.runs = append(p.runs, NewRun(s, base))
		p.mu.Unlock()
		respond(w, http.StatusCreated, map[string]any{"run": at, "base_url": base})
		return
	}
	http.Error(w, fmt.Sprintf("there is no script %q", asked.Script), http.StatusNotFound)
}

// refusing is the URL of a port that nothing listens on. A connection to the player itself is bound to it for as long
// as the player is there, so that no program is given that port.
func (p *Player) refusing(ctx context.Context, player string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound == nil {
		to, err := net.ResolveTCPAddr("tcp", player)
		if err != nil {
			return "", err
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: to.IP}} // bound first: no other connection shares such a port
		if p.bound, err = d.DialContext(ctx, "tcp", player); err != nil {
			return "", err
		}
	}
	return "http://" + p.bound.LocalAddr().String(), nil
}

func (p *Player) run(id string) (*Run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(p.runs) {
		return nil, fmt.Errorf("there is no run %q", id)
	}
	return p.runs[n-1], nil
}

func (p *Player) state(w http.ResponseWriter, q *http.Request) {
	r, err := p.run(q.PathValue("run"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if seconds, err := strconv.ParseFloat(q.FormValue("arrival"), 64); err == nil {
		ctx, cancel := context.WithTimeout(q.Context(), time.Duration(seconds*float64(time.Second)))
		defer cancel()
		_ = r.Arrival(ctx) // the state says it
	}
	respond(w, http.StatusOK, map[string]any{"waiting": r.Waiting()})
}

func (p *Player) step(w http.ResponseWriter, q *http.Request) {
	r, err := p.run(q.PathValue("run"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	i, err := strconv.Atoi(q.PathValue("step"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var o Observed
	if q.ContentLength != 0 {
		if err := json.NewDecoder(q.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithTimeout(q.Context(), cmp.Or(p.StepTimeout, StepTimeout))
	defer cancel()
	failures := []string{}
	if err := r.Step(ctx, i, o); err != nil {
		failures = strings.Split(err.Error(), "\n")
	}
	respond(w, http.StatusOK, map[string]any{"ok": len(failures) == 0, "failures": failures})
}

func (p *Player) end(w http.ResponseWriter, q *http.Request) {
	r, err := p.run(q.PathValue("run"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	respond(w, http.StatusOK, r.End())
}

func respond(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a runner that has left does not read it
}
