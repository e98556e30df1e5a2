package contracts

import "strings"

// CodeInfo is what a [Code] means to a caller.
type CodeInfo struct {
	Status    int    // the HTTP status
	Retryable bool   // whether the same request may succeed later without anything else being changed
	Title     string // the code in words
}

// codes is the one table of code, status and retryability.
var codes = map[Code]CodeInfo{
	CodeInvalidArgument:     {400, false, "a field cannot be accepted"},
	CodeUnauthenticated:     {401, false, "authentication is missing or not accepted"},
	CodePermissionDenied:    {403, false, "this caller may not do that"},
	CodeNotOwner:            {403, false, "the lease belongs to somebody else"},
	CodeBadSignature:        {403, false, "the machine ID's holder did not sign this"},
	CodeNotFound:            {404, false, "there is no such thing"},
	CodeUnknownService:      {404, false, "there is no such service"},
	CodeMethodNotAllowed:    {405, false, "this path does not take that method"},
	CodeLockHeld:            {409, true, "lock is held"},
	CodeLockNotHeld:         {409, false, "lock is not held"},
	CodeLeaseLost:           {409, false, "the lease has been followed by another"},
	CodeLeaseExpired:        {409, false, "the lease has expired"},
	CodeLeaseReleased:       {409, false, "the lease was released"},
	CodeStaleToken:          {409, false, "a higher fencing token has been here"},
	CodeAnalysisLocked:      {409, true, "somebody else runs the analysis"},
	CodeRunInterrupted:      {409, true, "the run ended early"},
	CodeAlreadyFinished:     {409, false, "the analysis is already finished"},
	CodePayloadTooLarge:     {413, false, "the body is too large"},
	CodeRequestIDReused:     {422, false, "the request_id was used with other parameters"},
	CodeAttemptFailed:       {424, true, "the work failed and may be tried again"},
	CodeInternal:            {500, false, "a fault of the server"},
	CodeDocumentDamaged:     {500, false, "a stored document cannot be read"},
	CodeNotConfigured:       {501, false, "the server is not set up for that"},
	CodeUnavailable:         {503, true, "the store did not answer"},
	CodeMachineIDsExhausted: {503, true, "no machine ID is free"},
	CodeClockSkew:           {503, true, "the server's clock is off"},
	CodeDeadlineExceeded:    {504, true, "the store took too long"},
}

// Info returns what the code means. ok is false for a code that this version does not know.
func (c Code) Info() (info CodeInfo, ok bool) {
	info, ok = codes[c]
	return info, ok
}

// DocsURL is where the codes are explained, one heading for each.
const DocsURL = "https://github.com/leasehold-dev/leasehold/blob/main/docs/errors.md"

// TypeURI is the "type" of the code's problem documents: the place where it is explained.
func (c Code) TypeURI() string { return DocsURL + "#" + strings.ToLower(string(c)) }
