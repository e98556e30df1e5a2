package demo

import "slices"

// deposit is what each turn of a worker adds to an account.
const deposit = 10

// outcome is how a write to an account ended.
type outcome string

const (
	applied   outcome = "applied"   // as it should be
	overwrote outcome = "overwrote" // it was carried out, and deposits of others are gone
	twice     outcome = "twice"     // it was carried out, and had been already
	ignored   outcome = "ignored"   // it was not carried out, and the worker was told that it was
	stale     outcome = "stale"     // it was rejected: a higher token was here
	repeated  outcome = "repeated"  // it was sent again, and not carried out again
)

// write is what a worker sends at the end of its turn.
type write struct {
	Worker string `json:"worker"`
	Turn   string `json:"turn"`  // names the turn, the same when it is sent again
	Round  int    `json:"round"` // of the page, as the read said
	Token  int64  `json:"token"` // fencing token of the lease
	Clock  int64  `json:"clock"` // the worker's time, Unix milliseconds

	Unfenced int64 `json:"unfenced"` // the balances that the worker read
	Fenced   int64 `json:"fenced"`
}

// row is a write as the page shows it.
type row struct {
	ID      int     `json:"id"`
	Worker  string  `json:"worker"`
	Token   int64   `json:"token"`
	From    int64   `json:"from"`
	To      int64   `json:"to"`
	Outcome outcome `json:"outcome"`
	Off     int64   `json:"off"` // by how much the balance is wrong since; negative if deposits are missing
}

// Bounds of what is kept of an account.
const (
	keptRows   = 6
	keptPoints = 48
)

// account is what both accounts have in common: the balance, and what the page says about it.
type account struct {
	Balance int64      `json:"balance"`
	Should  int64      `json:"should"` // what all deposits are together that were carried out, or were said to be
	Rows    []row      `json:"rows"`   // the latest first
	Points  [][2]int64 `json:"points"` // balance and should, the latest last
	Worst   *row       `json:"worst"`  // the last write that was not applied as it should be

	writes int
	last   map[string]string // turns that are in Should, by worker: only its last can come again
}

func newAccount() account {
	return account{Rows: []row{}, Points: [][2]int64{{0, 0}}, last: map[string]string{}}
}

// counts reports whether a turn is in Should already.
func (a *account) counts(w write) bool { return a.last[w.Worker] == w.Turn }

// note remembers a write for the page.
func (a *account) note(w write, r row) row {
	if r.Outcome != stale && !a.counts(w) {
		a.last[w.Worker] = w.Turn
		a.Should += deposit
	}
	a.writes++
	r.ID, r.Worker, r.Token = a.writes, w.Worker, w.Token
	a.Rows = slices.Insert(a.Rows, 0, r)
	a.Rows = a.Rows[:min(len(a.Rows), keptRows)]
	a.Points = append(a.Points, [2]int64{a.Balance, a.Should})
	a.Points = a.Points[max(0, len(a.Points)-keptPoints):]
	if r.Outcome != applied {
		a.Worst = &r
	}
	return r
}

// unfenced is the account without a fence: the write with the latest time wins.
type unfenced struct {
	account

	newest int64 // time of the last write that was carried out
}

func (a *unfenced) write(w write) row {
	r := row{From: w.Unfenced, To: w.Unfenced + deposit, Outcome: applied}
	switch {
	case w.Clock < a.newest:
		r.Outcome, r.Off = ignored, -deposit
		return a.note(w, r)
	case w.Unfenced != a.Balance:
		r.Outcome, r.Off = overwrote, w.Unfenced-a.Balance
	case a.counts(w):
		r.Outcome, r.Off = twice, deposit
	}
	a.Balance, a.newest = r.To, w.Clock
	return a.note(w, r)
}

// fenced is the account with a fence. The caller of write has asked the fence about the token.
type fenced struct {
	account

	token int64 // of the last write that was carried out
}

func (a *fenced) write(w write, passed bool) row {
	r := row{From: w.Fenced, To: w.Fenced + deposit, Outcome: applied}
	switch {
	case !passed:
		r.Outcome = stale
	case w.Token == a.token:
		r.Outcome = repeated
	default:
		a.Balance, a.token = r.To, w.Token
	}
	return a.note(w, r)
}
