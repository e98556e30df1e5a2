package conformance

import "slices"

// Level says how much of a client a script needs, so that one can be written in steps.
type Level string

// The levels.
const (
	Core   Level = "core"   // a lock that is held, renewed, released, lost and given up: what every client has
	Robust Level = "robust" // the same behind proxies, on clocks that are set, and in processes that are stopped
	Modes  Level = "modes"  // several holders, lines, rates, several locks at once
	OfRuns Level = "runs"   // work that runs once
	OfIDs  Level = "ids"    // leases of machine IDs, and IDs
)

// core are the scripts of the level Core, in an order in which they can be made to pass.
var core = []string{
	"lock-hold-renew-release", "lock-try-held", "lock-credentials", "lock-acquire-unknown-members",
	"lock-acquire-denied", "lock-acquire-invalid", "lock-acquire-unauthenticated", "lock-key-in-path", "lock-names",
	"lock-acquire-lost-answer", "lock-acquire-lost-request", "lock-acquire-unavailable", "lock-acquire-hang",
	"lock-acquire-content-type", "lock-acquire-of-another", "lock-acquire-incomplete", "lock-acquire-spent",
	"lock-late-answer", "lock-wait", "lock-wait-impossible", "lock-wait-over", "lock-cancel",
	"lock-renewal-lost-answer", "lock-renewal-lost-request", "lock-renewal-changed",
	"lock-renewal-unavailable-then-back", "lock-renewal-unavailable", "lock-lost-before-expiry", "lock-renewal-lost",
	"lock-renewal-expired", "lock-renewal-not-owner", "lock-renewal-released", "lock-renewal-of-another",
	"lock-release-lost-answer", "lock-release-lost-request", "lock-release-lease-lost", "lock-do", "lock-do-fails",
	"lock-do-lost",
}

// Level is how much of a client the script needs.
func (s *Script) Level() Level {
	switch {
	case s.Area == Once:
		return OfRuns
	case s.Area == IDs:
		return OfIDs
	case s.Area != Locks:
		return Level(s.Area)
	case slices.Contains(core, s.Name):
		return Core
	case slices.ContainsFunc(s.Steps, Step.ofMode):
		return Modes
	}
	return Robust
}

// ofMode reports whether a step begins a call for more than a lock with one holder.
func (s Step) ofMode() bool {
	if s.Call == "acquire_all" || s.Call == "take" {
		return true
	}
	o, err := s.CallOptions()
	return err == nil && (o.Shared || o.Permits > 0 || o.Fair || o.Waiting > 0 || o.Replace || o.LockDelay > 0)
}
