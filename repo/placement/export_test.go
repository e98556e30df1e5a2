package placement

// RefusalsKept is of how many claims a Service remembers that they were refused.
func RefusalsKept(s *Service) int {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	return len(s.refusals.all)
}
