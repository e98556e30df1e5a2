package httpapi_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
)

// TestContractIsServed, LS-API: each path of the contract is served, by just the methods that the contract has.
func TestContractIsServed(t *testing.T) {
	public, _, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, httpapi.Development{})
	parameter := regexp.MustCompile(`\{[a-z_]+\}`)
	for path, item := range public.Paths.Map() {
		var want []string
		for method := range item.Operations() {
			if want = append(want, method); method == "GET" {
				want = append(want, "HEAD")
			}
		}
		slices.Sort(want)
		a := d.send("PATCH", parameter.ReplaceAllString(path, "1"), "")
		got := strings.Split(a.header.Get("Allow"), ", ")
		slices.Sort(got)
		if a.status != 405 || !slices.Equal(got, want) {
			t.Errorf("%s: %d, served by %q, want %q", path, a.status, got, want)
		}
	}
}
