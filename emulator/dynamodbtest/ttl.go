package dynamodbtest

import (
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

type describeTimeToLive struct{ named }

func (r *describeTimeToLive) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s)
	if err != nil {
		return nil, err
	}
	description := map[string]any{"TimeToLiveStatus": "DISABLED"}
	if t.ttl != "" {
		description = map[string]any{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}
	}
	return map[string]any{"TimeToLiveDescription": description}, nil
}

type updateTimeToLive struct {
	named
	TimeToLiveSpecification *timeToLive
}

type timeToLive struct {
	AttributeName *string
	Enabled       *bool
}

func (spec *timeToLive) check() *apiError {
	const name = "timeToLiveSpecification.attributeName"
	switch {
	case spec == nil:
		return missing("TimeToLiveSpecification")
	case spec.AttributeName == nil:
		return all(missing(name), enabled(spec.Enabled))
	case *spec.AttributeName == "":
		return all(constraint("", name, "Member must have length greater than or equal to 1"), enabled(spec.Enabled))
	case len(*spec.AttributeName) > 255:
		return all(constraint(*spec.AttributeName, name, "Member must have length less than or equal to 255"),
			enabled(spec.Enabled))
	default:
		return enabled(spec.Enabled)
	}
}

func enabled(given *bool) *apiError {
	if given == nil {
		return missing("timeToLiveSpecification.enabled")
	}
	return nil
}

func (r *updateTimeToLive) run(s *Server, _ mode) (any, *apiError) {
	t, err := r.find(s, r.TimeToLiveSpecification.check())
	if err != nil {
		return nil, err
	}
	switch spec := r.TimeToLiveSpecification; {
	case *spec.Enabled && t.ttl != "":
		return nil, invalid("TimeToLive is already enabled")
	case !*spec.Enabled && t.ttl == "":
		return nil, invalid("TimeToLive is already disabled")
	case !*spec.Enabled && t.ttl != *spec.AttributeName:
		return nil, invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl)
	case *spec.Enabled:
		t.ttl = *spec.AttributeName
	default:
		t.ttl = ""
	}
	return map[string]any{"TimeToLiveSpecification": r.TimeToLiveSpecification}, nil
}

// fiveYears is how old a time to live may be for the service to believe it: an older one is taken for a mistake.
const fiveYears = 5 * 365 * 24 * 60 * 60

// ExpireNow deletes what the service would delete one day: the items of all tables whose time-to-live attribute is a
// number of Unix seconds that is past by the server's clock, but not by more than five years. It returns how many. The
// service takes up to a few days to do this, and so does this server unless it is told: until then an expired item is
// handled like any other.
func (s *Server) ExpireNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, deleted := s.now().Unix(), 0
	for _, name := range sortedKeys(s.tables) {
		t := s.tables[name]
		if t.ttl == "" {
			continue
		}
		var gone []itemID
		for id, item := range t.items {
			n, ok := item[t.ttl].(attr.Number)
			if !ok {
				continue
			}
			if at, ok := n.Seconds(); ok && at < now && at >= now-fiveYears {
				gone = append(gone, id)
			}
		}
		slices.SortFunc(gone, func(a, b itemID) int { return compareNames(a.hash+a.sort, b.hash+b.sort) })
		for _, id := range gone {
			t.put(id, nil)
			t.commit()
		}
		deleted += len(gone)
	}
	return deleted
}
