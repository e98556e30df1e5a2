package contracts

import "strings"

// CodeInfo is what a [Code] means to a caller.
type CodeInfo struct {
	Status    int    // the HTTP status
	Retryable bool   // whether the same request may succeed later
	Title     string // the code in words
}

// codes is the one table of code, status and retryability.
var codes = map[Code]CodeInfo{
	CodeInvalidArgument:      {400, false, "invalid field"},
	CodeUnauthenticated:      {401, false, "not authenticated"},
	CodePermissionDenied:     {403, false, "permission denied"},
	CodeNotOwner:             {403, false, "not the owner of the lease"},
	CodeBadSignature:         {403, false, "invalid signature"},
	CodeNotFound:             {404, false, "not found"},
	CodeUnknownService:       {404, false, "unknown service"},
	CodeMethodNotAllowed:     {405, false, "method not allowed"},
	CodeLockHeld:             {409, true, "lock is held"},
	CodeLockNotHeld:          {409, false, "lock is not held"},
	CodeLockModeDiffers:      {409, false, "lock has another mode"},
	CodeLockQueueFull:        {409, true, "too many wait for the lock"},
	CodeLockDelayed:          {409, true, "lock is closed for its delay"},
	CodeLeaseLost:            {409, false, "superseded by a newer lease"},
	CodeLeaseExpired:         {409, false, "lease expired"},
	CodeLeaseReleased:        {409, false, "lease released"},
	CodeLeaseChanged:         {409, true, "lease changed"},
	CodeStaleToken:           {409, false, "stale fencing token"},
	CodeAnalysisLocked:       {409, true, "analysis is locked"},
	CodeRunInterrupted:       {409, true, "run interrupted"},
	CodeRunDiffers:           {422, false, "run of something else"},
	CodeAlreadyFinished:      {409, false, "analysis is already finished"},
	CodeAnalysisNotFailed:    {409, false, "analysis is not FAILED"},
	CodeAnalysisChanged:      {409, false, "analysis has changed"},
	CodeLockUnreadable:       {409, false, "lock cannot be judged"},
	CodePayloadTooLarge:      {413, false, "body too large"},
	CodeRequestIDReused:      {422, false, "request_id used before"},
	CodeAttemptFailed:        {424, true, "run failed"},
	CodeInternal:             {500, false, "internal error"},
	CodeDocumentDamaged:      {500, false, "stored document is damaged"},
	CodeNotConfigured:        {501, false, "not configured"},
	CodeUnavailable:          {503, true, "store unavailable"},
	CodeMachineIDsExhausted:  {503, true, "no free machine ID"},
	CodeClockSkew:            {503, true, "clock skew too large"},
	CodeMachineIDLimit:       {429, true, "too many machine IDs"},
	CodeLockLimit:            {429, true, "too many locks"},
	CodePlacementLimit:       {429, true, "too many identities or clusters"},
	CodeRateLimited:          {429, true, "too many requests"},
	CodeOverloaded:           {503, true, "server overloaded"},
	CodeTopologyUndetermined: {409, true, "no member to place on"},
	CodeNoEligibleMember:     {409, true, "no eligible member"},
	CodeMemberIneligible:     {409, false, "member is not eligible"},
	CodeStaleEpoch:           {409, false, "epoch is over"},
	CodeActivationExists:     {409, false, "identity is active"},
	CodeActivationLocked:     {409, true, "identity is being activated"},
	CodeActivationFailed:     {409, false, "activation failed"},
	CodeWrongPhase:           {409, false, "activation is in another phase"},
	CodeStateChanged:         {409, false, "state has another version"},
	CodeMemberExists:         {409, true, "member of this name lives"},
	CodeMemberUnknown:        {404, false, "no member of this name"},
	CodeStaleIncarnation:     {409, false, "incarnation has ended"},
	CodeClusterFull:          {409, true, "cluster is full"},
	CodeClusterDiffers:       {409, false, "cluster is set up differently"},
	CodeDeadlineExceeded:     {504, true, "store timed out"},
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
