package machineid

// Draw has a test draw the pages that a service begins with.
func (s *Service) Draw(spread func(n int) int) { s.spread = spread }
