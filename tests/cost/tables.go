package cost

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/internal/price"
)

// million is how many of an operation prices are for.
const million = 1e6

// table is a table of Markdown.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// dollars has cents, or as many digits as show two that are not zero.
func dollars(d float64) string {
	switch {
	case d == 0:
		return "0"
	case d < 0.1:
		return "$" + strconv.FormatFloat(d, 'g', 2, 64)
	case math.Abs(d*100-math.Round(d*100)) > 1e-6 && d < 10:
		return fmt.Sprintf("$%.3f", d)
	default:
		return fmt.Sprintf("$%.2f", d)
	}
}

// number shows a number with at most two digits after the point.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
}

// thousands shows a whole number in groups of three digits.
func thousands(x float64) string {
	s := strconv.FormatFloat(math.Floor(x), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// OperationsTable is what was counted, and what a million cost. The last column is how many entries of indexes the
// operation writes on Firestore Standard, without and with the exemptions that Leasehold declares.
func OperationsTable(all []Counted) string {
	head := []string{"Operation"}
	for _, c := range all {
		head = append(head, c.Store)
	}
	standard := find(all, price.FirestoreStandard.Name)
	var rows [][]string
	for _, o := range Operations {
		row := []string{o}
		for _, c := range all {
			u := c.Of(o)
			cell := number(u.Requests)
			if c.Bill != nil {
				cell += fmt.Sprintf("/%s/%s, %s", number(u.Writes), number(u.Reads), dollars(u.On(*c.Bill)))
			}
			row = append(row, cell)
		}
		cell := ""
		if e, ok := standard.Entries[o]; ok {
			cell = number(e.All) + "/" + number(e.Declared)
		}
		rows = append(rows, append(row, cell))
	}
	return table(append(head, "index entries"), rows)
}

// PricesTable is what the prices are.
func PricesTable() string {
	var rows [][]string
	for _, b := range []price.Billing{price.DynamoDB, price.FirestoreStandard, price.FirestoreEnterprise} {
		rows = append(rows, []string{b.Name, dollars(b.Write), dollars(b.Read), b.Unit})
	}
	return table([]string{"Store", "a million writes", "a million reads", "billed by"}, rows)
}

// FunctionsTable is what the API costs in a function, beside the store.
func FunctionsTable() string {
	var rows [][]string
	for _, f := range price.Functions {
		one := f.PerMillion(price.FunctionSeconds)
		rows = append(rows, []string{f.Name, f.Instance, dollars(one), dollars(2 * one)})
	}
	return table([]string{"A million times", "instance", "one request", "cycle"}, rows)
}

// FaaSKeeperTable is FaaSKeeper beside Leasehold on DynamoDB, with and without a function in front. Of FaaSKeeper at
// today's prices only a bound is known: the price of DynamoDB was halved, and no other price that it pays fell as much.
func FaaSKeeperTable(all []Counted) string {
	then, now := price.FaaSKeeper.DynamoDB, price.DynamoDB
	cheaper := now.Write / then.Write
	cycle := find(all, price.DynamoDB.Name).Of(Cycle)
	function := 2 * price.Functions[0].PerMillion(price.FunctionSeconds)
	between := func(times float64) string {
		return dollars(times*price.FaaSKeeper.WriteLeast) + " to " + dollars(times*price.FaaSKeeper.WriteMost)
	}
	least := func(times float64) string { return dollars(times*price.FaaSKeeper.WriteLeast*cheaper) + " at least" }
	return table([]string{"A million times", "at the prices of the paper", "at today's"}, [][]string{
		{"FaaSKeeper: a write", between(1), least(1)},
		{"FaaSKeeper: a lock, created and deleted", between(2), least(2)},
		{"Leasehold: a write", dollars(cycle.On(then) / 2), dollars(cycle.On(now) / 2)},
		{"Leasehold: a lock, acquired and released", dollars(cycle.On(then)), dollars(cycle.On(now))},
		{"the same, through " + price.Functions[0].Name, dollars(cycle.On(then) + function),
			dollars(cycle.On(now) + function)},
	})
}

// BreakEvenTable is how many cycles a day cost what machines cost that run all the time.
func BreakEvenTable(all []Counted) string {
	perDay := func(perMillion float64, machines float64) string {
		return thousands(machines * price.SmallMachine.Day() / perMillion * million)
	}
	var rows [][]string
	add := func(name string, perMillion float64) {
		rows = append(rows, []string{name, perDay(perMillion, 1), perDay(perMillion, 3),
			number(math.Floor(3*price.SmallMachine.Day()/perMillion*million/8640) / 10)})
	}
	cycle := find(all, price.DynamoDB.Name).Of(Cycle)
	add("FaaSKeeper, at the prices of the paper", 2*price.FaaSKeeper.WriteLeast)
	add("Leasehold on DynamoDB, at the prices of the paper", cycle.On(price.FaaSKeeper.DynamoDB))
	for _, c := range all {
		if c.Bill == nil {
			continue
		}
		add(c.Store, c.Of(Cycle).On(*c.Bill))
		if c.Store == price.DynamoDB.Name {
			add(c.Store+", through "+price.Functions[0].Name, c.Of(Cycle).On(*c.Bill)+
				2*price.Functions[0].PerMillion(price.FunctionSeconds))
		}
	}
	return table([]string{
		"Cycles a day that cost as much as", "one " + price.SmallMachine.Name, "three", "three: cycles a second, all day",
	}, rows)
}

// rate shows a rate in two digits: a simulation says no more.
func rate(perSecond float64) string {
	switch {
	case math.IsInf(perSecond, 1):
		return "–"
	case perSecond < 10:
		return number(math.Round(perSecond*10) / 10)
	}
	digit := math.Pow(10, math.Floor(math.Log10(perSecond))-1)
	return thousands(math.Round(perSecond/digit) * digit)
}

// LimitsTable is the highest load of cycles that each store carries.
func LimitsTable(all []Counted) string {
	head := []string{"Cycles a second"}
	for _, l := range Loads {
		head = append(head, l.Name)
	}
	head = append(head, Loads[1].Name+", after half an hour")
	var rows [][]string
	for _, c := range Stores {
		cycle := find(all, c.Store).Of(Cycle)
		row := []string{c.Store}
		for _, l := range Loads {
			row = append(row, rate(Limit(c, cycle, l, 0)))
		}
		rows = append(rows, append(row, rate(Limit(c, cycle, Loads[1], 30))))
	}
	return table(head, rows)
}

// SourcesTable is what the stores take, and who says so.
func SourcesTable() string {
	var rows [][]string
	for _, c := range Stores {
		shown := func(units float64) string {
			if units == 0 {
				return "–"
			}
			return thousands(units)
		}
		rows = append(rows, []string{c.Store, shown(c.Document), shown(c.Tenant), shown(c.Whole), number(c.Service) + " ms",
			c.From})
	}
	return table([]string{"Units a second", "a document", "a tenant", "all", "a cycle alone", "from"}, rows)
}

// EntriesPerShard are the write units a second that a partition of the index of the sweep takes on DynamoDB.
const EntriesPerShard = 1000

// SweepTable is how many runs a second the index of the sweep takes on DynamoDB, by its shards: what a run writes
// beyond its document goes to the index.
func SweepTable(all []Counted) string {
	db := find(all, price.DynamoDB.Name)
	index := func(operation string, documents float64) float64 { return db.Of(operation).Writes - documents }
	var rows [][]string
	for _, shards := range []float64{1, 8, 64} {
		take := shards * EntriesPerShard
		rows = append(rows, []string{
			number(shards), thousands(take / index(Run, 2)), thousands(take / (index(Run, 2) + 5*index(Refresh, 1))),
		})
	}
	return table([]string{"Shards of the index", "runs a second, without heartbeats", "with five heartbeats each"}, rows)
}
