package rates

// MaxShares is how many callers are remembered.
const MaxShares = maxShares

// Remembered is how many callers are.
func (r *Rates) Remembered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.shares)
}

// Least is how many requests a slice has while more than half of the burst is left.
const Least = least

// Fresh is how long ago the store's time that is known may be.
const Fresh = fresh
