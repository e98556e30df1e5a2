package gcpfirestore

var (
	EscapeID   = escapeID
	UnescapeID = unescapeID
	LowerBound = lowerBound
	Successor  = successor
)
