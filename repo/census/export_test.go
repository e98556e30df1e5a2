package census

// Remembered is how many tenants are remembered.
func (c *Census) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tenants)
}

// MaxTallies is how many tenants are remembered.
const MaxTallies = maxTallies
