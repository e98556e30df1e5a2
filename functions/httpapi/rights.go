package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Rights is a set of rights: what a caller may do beside using the locks, the fences, the runs and the clusters of its
// tenant, which every caller may.
type Rights uint8

// The rights. None contains another: a caller has each that it is given, and no more.
const (
	Admin      Rights = 1 << iota // in its tenant, everything: also what is others'
	Operate                       // what belongs to no tenant, and what operators see of all tenants
	Worker                        // run analyses, which belong to no tenant, and see them
	MachineIDs                    // lease machine IDs, which belong to no tenant, and see who has them
	AllRights  = Admin | Operate | Worker | MachineIDs
)

// KnownRight says what there is to know of a right: its name, as `leasehold token new --right` has it; the scope that
// gives it, unless an [Identity] is set up with another; and what it is for, as the end of a sentence with "may".
type KnownRight struct {
	Right            Rights
	Name, Scope, May string
}

// KnownRights are the rights one by one.
var KnownRights = []KnownRight{
	{Admin, "admin", "leasehold:admin",
		"do everything in its tenant: end leases of others, reset fences, remove clusters, see its outcomes and its audit"},
	{Operate, "operate", "leasehold:operate",
		"operate the installation: retry analyses, end leases of machine IDs, see and mend the clusters, outcomes and audit " +
			"of all tenants"},
	{Worker, "worker", "leasehold:worker", "run analyses, and see them"},
	{MachineIDs, "ids", "leasehold:ids", "lease machine IDs, and see who has them"},
}

// Scopes are the scopes that give rights. An empty one is the default of [KnownRights].
type Scopes struct{ Admin, Operate, Worker, MachineIDs string }

// Rights are those of a caller whose credentials have some scopes.
func (s Scopes) Rights(has func(scope string) bool) (r Rights) {
	for i, scope := range [...]string{s.Admin, s.Operate, s.Worker, s.MachineIDs} {
		if known := KnownRights[i]; has(cmp.Or(scope, known.Scope)) {
			r |= known.Right
		}
	}
	return r
}

// May reports whether the caller has one of some rights.
func (c Caller) May(one Rights) bool { return c.Rights&one != 0 }

// needs lets callers with one of some rights do what is named.
func needs(one Rights, what string, do handler) handler {
	return func(w http.ResponseWriter, r *http.Request, c Caller) error {
		if !c.May(one) {
			return lacks(one, what)
		}
		return do(w, r, c)
	}
}

// lacks says how one gets a right.
func lacks(one Rights, what string) error {
	var scopes, names []string
	for _, known := range KnownRights {
		if one&known.Right != 0 {
			scopes, names = append(scopes, known.Scope), append(names, known.Name)
		}
	}
	return contracts.Errorf(contracts.CodePermissionDenied,
		"%s needs the scope %s, unless this server is set up with another, or a token made with --right %s", what,
		strings.Join(scopes, " or "), strings.Join(names, " or "))
}
