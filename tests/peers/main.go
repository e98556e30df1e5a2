package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan is what a run does.
type plan struct {
	only   *regexp.Regexp // of the names of peers; nil is all
	rounds int
	each   time.Duration // of a slice; 0 does everything so often as times says
	times  int64
	crash  int // locks whose holders crash
	most   int // callers; scenarios with more are left out
	say    func(string, ...any)
}

func main() {
	var (
		only   = flag.String("only", "", "only the peers whose `names` match, as a regular expression")
		rounds = flag.Int("rounds", 7, "how many slices of time each peer gets")
		each   = flag.Duration("each", time.Second, "how long a slice is")
		write  = flag.String("write", "", "put the tables into this `page`, between its marks, instead of printing them")
	)
	faults := flag.Bool("faults", false, "put faults to all, and say what each did")
	keys := flag.Int("keys", 5, "with -faults: how many keys each line of the second table gets")
	flag.Parse()
	p := plan{
		rounds: *rounds, each: *each, times: 200, crash: 4, most: 64,
		say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	}
	if *only != "" {
		p.only = regexp.MustCompile("(?i)" + *only)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case os.Getenv(asStormShop) != "":
		err = stormShop(ctx)
	case os.Getenv(asFaultClient) != "":
		err = faultClient(ctx)
	case *faults:
		err = p.faults(ctx, *write, *keys)
	default:
		err = p.main(ctx, *write)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

func (p plan) main(ctx context.Context, write string) error {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	results, skipped, err := p.measure(ctx, dir)
	if err != nil {
		return err
	}
	return put(write, page(results, skipped, p.rounds, p.each))
}

// faults puts faults to all.
func (p plan) faults(ctx context.Context, write string, keys int) error {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := clockProgram(ctx, dir)
	if err != nil {
		return err
	}
	results, err := p.faultTable(ctx, dir, binary)
	if err != nil {
		return err
	}
	names, cells, err := p.storm(ctx, dir, binary, keys)
	if err != nil {
		return err
	}
	return put(write, faultPage(results)+"\n### Work that runs once\n\n"+powertoolsPromise+stormTable(names, cells, keys))
}

// put prints a text, or puts it into a page.
func put(page, text string) error {
	if page == "" {
		fmt.Print(text)
		return nil
	}
	return replace(page, text)
}

// begin and end are the marks of the part of a page that is written.
const begin, end = "<!-- measured -->\n", "<!-- /measured -->\n"

func replace(page, text string) error {
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, too := strings.Cut(rest, end)
	if !ok || !too {
		return fmt.Errorf("%s has no %s and %s", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(page, []byte(before+begin+"\n"+text+"\n"+end+after), 0o600)
}

// measure lets all peers take part in all scenarios. Those that cannot are in skipped, by their names and with the
// reason.
func (p plan) measure(ctx context.Context, dir string) (results []result, skipped []string, err error) {
	wanted := map[string]bool{}
	var part []peer
	for _, one := range peers {
		if p.only == nil || p.only.MatchString(one.name) {
			part = append(part, one)
			wanted[one.server] = true
			wanted["redis"] = wanted["redis"] || one.server == "http-redis"
		}
	}
	on, err := startServers(ctx, dir, wanted)
	if on != nil {
		defer on.stop()
	}
	if err != nil {
		return nil, nil, err
	}
	for _, one := range part {
		if why := on.why[one.server]; why != nil {
			p.say("%s: skipped: %v", one.name, why)
			skipped = append(skipped, fmt.Sprintf("%s, because %v", one.name, why))
			continue
		}
		l, err := one.open(ctx, on.all[one.server].addr, p.most+1, ttl)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", one.name, err)
		}
		defer l.close()
		results = append(results, result{
			contest: contest{peer: one, on: on.all[one.server], locker: l},
			slices:  map[string]map[int][]slice{}, counts: map[string]counts{},
		})
	}
	for _, sc := range scenarios {
		if err := p.slices(ctx, sc, results); err != nil {
			return nil, nil, err
		}
		for i := range results {
			n := min(sc.callers[0], p.most)
			if results[i].counts[sc.name], err = count(ctx, results[i].contest, sc, n, p.times); err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", results[i].name, sc.name, err)
			}
		}
	}
	for i := range results {
		p.say("%s: a holder that crashed", results[i].name)
		if results[i].expired, err = expired(ctx, results[i].contest, p.crash); err != nil {
			return nil, nil, fmt.Errorf("%s: expired: %w", results[i].name, err)
		}
	}
	return results, skipped, nil
}

// slices measures a scenario: in each round all peers, in another order than in the round before.
func (p plan) slices(ctx context.Context, sc scenario, results []result) error {
	until := limit{time: p.each}
	if p.each == 0 {
		until = limit{done: p.times}
	}
	for i := range results {
		results[i].slices[sc.name] = map[int][]slice{}
	}
	for _, n := range sc.callers {
		if n > p.most {
			continue
		}
		for round := range p.rounds + 1 { // the first warms up
			order := make([]int, len(results))
			for i := range order {
				order[i] = (i + round) % len(order)
			}
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, i := range order {
				r := &results[i]
				s, err := run(ctx, r.on, r.locker, sc, n, until)
				if err == nil && s.done == 0 {
					err = errors.New("nothing was done")
				}
				if err != nil {
					return fmt.Errorf("%s: %s, %s: %w", r.name, sc.name, callers(n), err)
				}
				if round > 0 {
					r.slices[sc.name][n] = append(r.slices[sc.name][n], s)
				}
			}
		}
		for _, r := range results {
			p.say("%-28s %s, %s: %s/s", r.name, sc.name, callers(n), round(summarize(r.slices[sc.name][n]).rate))
		}
	}
	return nil
}
