package placement

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of what a caller may send. Lengths are in bytes of UTF-8.
const (
	MaxTenantBytes     = 128
	MaxClusterBytes    = 63
	MaxKindBytes       = 64
	MaxIDBytes         = 256
	MaxMemberBytes     = 128
	MaxRequestIDBytes  = 128
	MaxAddressBytes    = 256
	MaxReasonBytes     = 512
	MaxLabels          = 16
	MaxLabelKeyBytes   = 64
	MaxLabelValueBytes = 128
	MaxKinds           = 64
	MaxWeight          = 1000
	MaxStateBytes      = 32 << 10
	MaxMembers         = 5000

	// maxOfferBytes bounds what all members of an epoch say: Lambda sends 6 MB in a response.
	maxOfferBytes = 2 << 20

	// maxPartBytes bounds what the members of one part of the state say: with it, and with what changes, a document is
	// smaller than docstore.MaxBytes, whichever epoch writes the part.
	maxPartBytes = 128_000

	MinPartitions     = 16
	MaxPartitions     = 1 << 16
	DefaultPartitions = 4096

	MinTTL     = time.Second // of a member's lease, and of the lock phase of an activation
	MaxTTL     = time.Hour
	DefaultTTL = 10 * time.Second // of a member's lease

	// DefaultLockTTL is that of the lock phase of an activation. It is for owners that live and hang: the lock of an owner
	// whose lease has ended ends with that, so it need not be short, and an activation may take its time.
	DefaultLockTTL = 10 * time.Minute

	// DefaultRetention is how long documents are kept that say only how something ended: activations that are free,
	// members that left or died. Events, and the tables of epochs that are over, are kept for a day.
	DefaultRetention = 30 * 24 * time.Hour
	MinRetention     = time.Hour

	keepEvents  = 24 * time.Hour
	keepEpochs  = 24 * time.Hour
	keepForever = 100 * 365 * 24 * time.Hour // as good as for ever, where an earlier write may have said less
)

// Cluster names a cluster.
type Cluster struct {
	Tenant string // tenant_id
	Name   string // letters, digits, '.', '_' and '-'
}

// Validate reports whether the cluster can be named so. The error is a [field.Error].
func (c Cluster) Validate() error {
	return first(field.Text("tenant_id", c.Tenant, MaxTenantBytes), word("cluster", c.Name, MaxClusterBytes))
}

// space is the tenant of all documents of the cluster. A cluster's name has no slash, so no two clusters share one.
func (c Cluster) space() string { return c.Tenant + "/" + c.Name }

// Identity names what is activated at most once: a kind and an ID.
type Identity struct {
	Kind string // of identities that the same members offer to host: letters, digits, '.', '_' and '-'
	ID   string // any text without control characters
}

// Validate reports whether the identity can be named so. The error is a [field.Error].
func (i Identity) Validate() error {
	return first(word("kind", i.Kind, MaxKindBytes), field.Text("id", i.ID, MaxIDBytes))
}

// word checks a name that is part of paths and keys.
func word(name, s string, most int) error {
	const allowed = "must be 1 to %d letters, digits, '.', '_' and '-', and begin with a letter or a digit"
	if s == "" || len(s) > most {
		return field.Errorf(name, allowed, most)
	}
	for i := range len(s) {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !plain && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return field.Errorf(name, allowed+": %q is not", most, s)
		}
	}
	return nil
}

// Validate reports whether a member can offer this. The error is a [field.Error].
func (o Offer) Validate() error {
	if len(o.Kinds) > MaxKinds {
		return field.Errorf("kinds", "has %d entries, %d at most", len(o.Kinds), MaxKinds)
	}
	for i, k := range o.Kinds {
		if err := word("kinds", k, MaxKindBytes); err != nil {
			return err
		}
		if slices.Contains(o.Kinds[:i], k) {
			return field.Errorf("kinds", "has %q twice", k)
		}
	}
	return first(checkLabels("labels", o.Labels), field.Range("weight", int64(o.Weight), 0, MaxWeight))
}

// Validate reports whether a placement can ask for this. The error is a [field.Error].
func (n Need) Validate() error {
	return first(checkLabels("labels", n.Labels), checkLabels("prefer", n.Prefer))
}

// Validate reports whether there can be such an incarnation. The error is a [field.Error].
func (i Incarnation) Validate() error {
	return first(checkMember("member", i.Member), field.Range("incarnation", i.Number, 1, docstore.MaxInt))
}

func checkMember(name, s string) error { return field.Text(name, s, MaxMemberBytes) }

func checkAddress(s string) error { return field.OptionalText("address", s, MaxAddressBytes) }

func checkEpoch(n int64) error { return field.Range("epoch", n, 0, docstore.MaxInt) }

func checkSeq(n int64) error { return field.Range("seq", n, 1, docstore.MaxInt) }

// checkOther is the error of a member that replaces itself.
func checkOther(member string) error {
	return field.Errorf("replaces", "names %q itself: a member that comes back joins", member)
}

func checkRequestID(s string) error { return field.Text("request_id", s, MaxRequestIDBytes) }

func checkToken(n int64) error { return field.Range("fencing_token", n, 1, docstore.MaxInt) }

func checkReason(s string) error { return field.OptionalText("reason", s, MaxReasonBytes) }

// checkTTL checks a time to live; 0 is a default.
func checkTTL(name string, d time.Duration) error {
	if d == 0 || d >= MinTTL && d <= MaxTTL && d%time.Millisecond == 0 {
		return nil
	}
	return field.Errorf(name, "is %v: whole milliseconds from %v to %v, or 0 for the default", d, MinTTL, MaxTTL)
}

func checkPartitions(n int) error {
	if n < MinPartitions || n > MaxPartitions || bits.OnesCount(uint(n)) != 1 {
		return field.Errorf("partitions", "is %d: a power of two from %d to %d", n, MinPartitions, MaxPartitions)
	}
	return nil
}

func checkLabels(name string, labels map[string]string) error {
	if len(labels) > MaxLabels {
		return field.Errorf(name, "has %d entries, %d at most", len(labels), MaxLabels)
	}
	for k, v := range labels {
		if err := field.Text(name, k, MaxLabelKeyBytes); err != nil {
			return field.Errorf(name, "has a key that cannot be used: 1 to %d bytes of text without control characters",
				MaxLabelKeyBytes)
		}
		if err := field.OptionalText(name+"."+k, v, MaxLabelValueBytes); err != nil {
			return err
		}
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
