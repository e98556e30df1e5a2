package lease

import "github.com/leasehold-dev/leasehold/contracts"

// lostError is the loss of a package.
type lostError struct{ text string }

// Lost is the loss of a package: an error of its own that is [contracts.ErrLost]. It costs nothing before main.
func Lost(text string) error { return &lostError{text} }

func (e *lostError) Error() string { return e.text }

func (*lostError) Unwrap() error { return contracts.ErrLost }
