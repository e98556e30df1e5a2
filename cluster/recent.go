package cluster

// recent are locations of which those are forgotten that were not asked for: one stays until half as many as may be
// remembered were found, or asked for, since. It is guarded by its owner.
type recent[K comparable] struct {
	half   int // of the most that are remembered
	latest map[K]Location
	before map[K]Location // what latest was before there were too many
}

func newRecent[K comparable](most int) recent[K] {
	return recent[K]{half: max(1, most/2), latest: map[K]Location{}, before: map[K]Location{}}
}

// get finds a location. It is old if it is to be put again, so that it stays.
func (r *recent[K]) get(key K) (where Location, ok, old bool) {
	if where, ok = r.latest[key]; ok {
		return where, true, false
	}
	where, ok = r.before[key]
	return where, ok, ok
}

func (r *recent[K]) put(key K, where Location) {
	if _, ok := r.latest[key]; !ok && len(r.latest) >= r.half {
		r.before, r.latest = r.latest, make(map[K]Location)
	}
	delete(r.before, key)
	r.latest[key] = where
}

func (r *recent[K]) remove(key K) {
	delete(r.latest, key)
	delete(r.before, key)
}

func (r *recent[K]) clear() {
	clear(r.latest)
	clear(r.before)
}
