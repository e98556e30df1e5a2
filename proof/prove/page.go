package prove

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
)

// EventsShown is how many events a picture has at most.
const EventsShown = 220

// picture is what the template shows.
type picture struct {
	Seed          uint64
	Broken        *Violation
	Width, Height int
	Lanes         []lane
	Leases        []bar
	Arrows        []arrow
	Dots          []dot
	Lines         []Event
}

type lane struct {
	X    int
	Name string
}

type bar struct {
	X, Y, H int
	Title   string
}

type arrow struct {
	X1, Y1, X2, Y2 int
	Lost           bool
	Title          string
}

type dot struct {
	X, Y  int
	Title string
	Kind  string
}

const asItKnows = " holds its lease as far as it knows"

// Page is one HTML page, which needs no other file: lanes of the clients, the servers and the store, messages as
// arrows, the leases that clients hold as bars, and the promise that was broken, with the [EventsShown] before it; nil
// if none was, and then the first ones are shown.
func Page(seed uint64, events []Event, broken *Violation) []byte {
	const left, step, row, top = 90, 130, 22, 60
	if broken == nil {
		events = events[:min(len(events), EventsShown)]
	} else {
		events = events[max(0, len(events)-EventsShown):]
	}
	p := picture{Seed: seed, Broken: broken, Lines: events}
	var clients []int
	for _, e := range events {
		if e.client >= 0 && !slices.Contains(clients, e.client) {
			clients = append(clients, e.client)
		}
	}
	slices.Sort(clients)
	x := func(n int) int { return left + n*step }
	for i, c := range clients {
		p.Lanes = append(p.Lanes, lane{x(i), owner(c)})
	}
	servers := len(clients)
	p.Lanes = append(p.Lanes, lane{x(servers), "server 1"}, lane{x(servers + 1), "server 2"},
		lane{x(servers + 2), "store"})
	p.Width, p.Height = x(servers+2)+left, top+row*(len(events)+2)
	type end struct{ x, y int }
	sent, holds := map[int]end{}, map[int]int{}
	for i, e := range events {
		y := top + row*(i+1)
		title := e.String()
		if e.client < 0 {
			p.Dots = append(p.Dots, dot{x(servers + 2), y, title, "world"})
			continue
		}
		at, server := x(slices.Index(clients, e.client)), x(servers+e.server)
		from, to := at, server
		if e.back {
			from, to = server, at
		}
		switch e.What {
		case "sent":
			if sent[e.message] = (end{from, y}); e.lost {
				p.Arrows = append(p.Arrows, arrow{from, y, (from + to) / 2, y + row/2, true, title})
			}
		case "arrived":
			if s, ok := sent[e.message]; ok {
				p.Arrows = append(p.Arrows, arrow{s.x, s.y, to, y, false, title})
			} else {
				p.Dots = append(p.Dots, dot{to, y, title, "late"})
			}
		case "decided":
			p.Dots = append(p.Dots, dot{x(servers + 2), y, title, "store"})
			p.Arrows = append(p.Arrows, arrow{server, y, x(servers + 2), y, false, title})
		default:
			p.Dots = append(p.Dots, dot{at, y, title, "client"})
		}
		begun, held := holds[e.client]
		switch {
		case e.holds && !held:
			holds[e.client] = y
		case !e.holds && held:
			p.Leases = append(p.Leases, bar{at - 5, begun, y - begun, owner(e.client) + asItKnows})
			delete(holds, e.client)
		}
	}
	for c, begun := range holds {
		p.Leases = append(p.Leases, bar{x(slices.Index(clients, c)) - 5, begun, p.Height - row - begun,
			owner(c) + asItKnows})
	}
	slices.SortFunc(p.Leases, func(a, b bar) int { return 10_000*(a.Y-b.Y) + a.X - b.X })
	var b bytes.Buffer
	if err := page.Execute(&b, p); err != nil {
		panic(fmt.Sprintf("the template is a constant: %v", err))
	}
	return b.Bytes()
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>leasehold prove: seed {{.Seed}}</title>
<style>
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1f24;--dim:#6b7280;--line:#d4d7dd;--a:#2563eb;--lease:#16a34a;--bad:#c81e1e}
@media(prefers-color-scheme:dark){:root{--bg:#14161a;--fg:#e6e8eb;--dim:#9aa3af;--line:#363b43;--a:#7aa7ff;--lease:#4ade80;--bad:#ff8080}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}
.bad{border-left:4px solid var(--bad);padding-left:1rem}h1{font-size:1.4rem}
svg text{fill:var(--fg);font:13px system-ui,sans-serif}.lane{stroke:var(--line)}.arrow{stroke:var(--a);fill:none}
.lost{stroke:var(--bad);stroke-dasharray:4 3}.lease{fill:var(--lease);opacity:.6}.dot{fill:var(--fg)}.dot.store{fill:var(--a)}
.dot.world,.dot.late{fill:var(--bad)}pre{overflow-x:auto;font-size:13px;line-height:1.45}.scroll{overflow-x:auto}
</style></head><body>
<h1>Leasehold, history of seed {{.Seed}}</h1>
{{with .Broken}}<p class="bad"><b>Broken: {{.Words}}</b><br>{{.Thing}}: {{.What}}</p>
{{else}}<p>No promise was broken.</p>{{end}}
<p>Time goes down. Green: a client holds its lease as far as it knows. Arrows: messages; dashed ones are lost.
Point at anything for its words; all of them are below. Again: <code>leasehold prove --seed {{.Seed}} --only</code></p>
<div class="scroll"><svg width="{{.Width}}" height="{{.Height}}" role="img" aria-label="the history as a picture">
<defs><marker id="m" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>
{{$h := .Height}}{{range .Lanes}}<text x="{{.X}}" y="30" text-anchor="middle">{{.Name}}</text>
<line class="lane" x1="{{.X}}" x2="{{.X}}" y1="45" y2="{{$h}}"/>{{end}}
{{range .Leases}}<rect class="lease" x="{{.X}}" y="{{.Y}}" width="10" height="{{.H}}"><title>{{.Title}}</title></rect>{{end}}
{{range .Arrows}}<line class="arrow{{if .Lost}} lost{{end}}" x1="{{.X1}}" y1="{{.Y1}}" x2="{{.X2}}" y2="{{.Y2}}" {{if not .Lost}}marker-end="url(#m)"{{end}}>
<title>{{.Title}}</title></line>{{if .Lost}}<text x="{{.X2}}" y="{{.Y2}}">✗<title>{{.Title}}</title></text>{{end}}{{end}}
{{range .Dots}}<circle class="dot {{.Kind}}" cx="{{.X}}" cy="{{.Y}}" r="4"><title>{{.Title}}</title></circle>{{end}}
</svg></div>
<h2>The same in words</h2><pre>{{range .Lines}}{{.}}
{{end}}</pre></body></html>
`))
