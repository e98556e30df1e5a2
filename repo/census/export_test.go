package census

// Remembered is how many tenants are remembered.
func (c *Census) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tenants)
}

// MaxCounts is how many counts there are at a time.
const MaxCounts = maxCounts
