package reread

// ChangedAt is for tests.
var ChangedAt = changedAt
