package contracts

import "strings"

// CodeInfo is what a [Code] means to a caller.
type CodeInfo struct {
	Status    int    // the HTTP status
	Retryable bool   // whether the same request may succeed later
	Final     bool   // whether the same request would be rejected again, until people have changed what is wrong
	Title     string // the code in words
}

// codes is the one table of code, status, retryability and finality.
var codes = map[Code]CodeInfo{
	CodeInvalidArgument:      {400, false, true, "invalid field"},
	CodeUnauthenticated:      {401, false, true, "not authenticated"},
	CodePermissionDenied:     {403, false, true, "permission denied"},
	CodeNotOwner:             {403, false, true, "not the owner of the lease"},
	CodeBadSignature:         {403, false, true, "invalid signature"},
	CodeNotFound:             {404, false, true, "not found"},
	CodeUnknownService:       {404, false, true, "unknown service"},
	CodeMethodNotAllowed:     {405, false, true, "method not allowed"},
	CodeLockHeld:             {409, true, false, "lock is held"},
	CodeLockNotHeld:          {409, false, true, "lock is not held"},
	CodeLockModeDiffers:      {409, false, true, "lock has another mode"},
	CodeLockQueueFull:        {409, true, false, "too many wait for the lock"},
	CodeLockDelayed:          {409, true, false, "lock is closed for its delay"},
	CodeLeaseLost:            {409, false, true, "superseded by a newer lease"},
	CodeLeaseExpired:         {409, false, true, "lease expired"},
	CodeLeaseReleased:        {409, false, true, "lease released"},
	CodeLeaseChanged:         {409, true, false, "lease changed"},
	CodeStaleToken:           {409, false, true, "stale fencing token"},
	CodeAnalysisLocked:       {409, true, false, "analysis is locked"},
	CodeRunInterrupted:       {409, true, false, "run interrupted"},
	CodeRunDiffers:           {422, false, true, "run of something else"},
	CodeAlreadyFinished:      {409, false, true, "analysis is already finished"},
	CodeAnalysisNotFailed:    {409, false, true, "analysis is not FAILED"},
	CodeAnalysisChanged:      {409, false, true, "analysis has changed"},
	CodeLockUnreadable:       {409, false, true, "lock cannot be judged"},
	CodePayloadTooLarge:      {413, false, true, "body too large"},
	CodeRequestIDReused:      {422, false, true, "request_id used before"},
	CodeAttemptFailed:        {424, true, false, "run failed"},
	CodeInternal:             {500, false, false, "internal error"},
	CodeDocumentDamaged:      {500, false, true, "stored document is damaged"},
	CodeNotConfigured:        {501, false, true, "not configured"},
	CodeUnavailable:          {503, true, false, "store unavailable"},
	CodeMachineIDsExhausted:  {503, true, false, "no free machine ID"},
	CodeClockSkew:            {503, true, false, "clock skew too large"},
	CodeMachineIDLimit:       {429, true, false, "too many machine IDs"},
	CodeLockLimit:            {429, true, false, "too many locks"},
	CodePlacementLimit:       {429, true, false, "too many identities or clusters"},
	CodeRateLimited:          {429, true, false, "too many requests"},
	CodeOverloaded:           {503, true, false, "server overloaded"},
	CodeTopologyUndetermined: {409, true, false, "no member to place on"},
	CodeNoEligibleMember:     {409, true, false, "no eligible member"},
	CodeMemberIneligible:     {409, false, true, "member is not eligible"},
	CodeStaleEpoch:           {409, false, true, "epoch is over"},
	CodeActivationExists:     {409, false, true, "identity is active"},
	CodeActivationLocked:     {409, true, false, "identity is being activated"},
	CodeActivationFailed:     {409, false, true, "activation failed"},
	CodeWrongPhase:           {409, false, true, "activation is in another phase"},
	CodeStateChanged:         {409, false, true, "state has another version"},
	CodeMemberExists:         {409, true, false, "member of this name lives"},
	CodeMemberUnknown:        {404, false, true, "no member of this name"},
	CodeStaleIncarnation:     {409, false, true, "incarnation has ended"},
	CodeClusterFull:          {409, true, false, "cluster is full"},
	CodeClusterDiffers:       {409, false, true, "cluster is set up differently"},
	CodeDeadlineExceeded:     {504, true, false, "store timed out"},
}

// Info returns what the code means. ok is false for a code that this version does not know.
func (c Code) Info() (info CodeInfo, ok bool) {
	info, ok = codes[c]
	return info, ok
}

// Final reports whether the same request would be rejected again, as far as the code alone says. It is false for a code that this version does not know.
func (c Code) Final() bool { return codes[c].Final }

// DocsURL is where the codes are explained, one heading for each.
const DocsURL = "https://github.com/leasehold-dev/leasehold/blob/main/docs/errors.md"

// TypeURI is the "type" of the code's problem documents: the place where it is explained.
func (c Code) TypeURI() string { return DocsURL + "#" + strings.ToLower(string(c)) }
