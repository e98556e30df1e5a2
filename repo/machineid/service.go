package machineid

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Bounds of what a caller may send. Lengths are in bytes of UTF-8.
const (
	MaxMeta           = kazahana.MaxMeta // entries
	MaxMetaKeyBytes   = kazahana.MaxMetaKeyBytes
	MaxMetaValueBytes = kazahana.MaxMetaValueBytes

	// ReleaseWindow is how far the timestamp of a release may be from the store's time.
	ReleaseWindow = 30 * time.Second
)

// Service leases the machine IDs of its spaces from a store. Between calls it remembers only that a space agrees with
// its configuration: any number of them, in any number of processes, may use the same store.
type Service struct {
	store    docstore.Store
	services map[string]*service
	spaces   map[string]*guarded
	closed   bool
	most     int // leases of one request; 0: no bound
	log      *slog.Logger
	now      func() time.Time
	spread   func(n int) int
}

var _ kazahana.LeaseProvider = (*Service)(nil)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Log gets a line for each grant: machine IDs, interval, service and the caller's meta, which is kept nowhere else.
	// nil means none.
	Log *slog.Logger

	// MaxLeases bounds the leases of one request; 0 means that only the store does.
	MaxLeases int

	// Closed rejects services that are not configured. Otherwise they lease as the service [DefaultServiceID] does, if
	// that one is configured.
	Closed bool

	// Now measures how long a store takes to respond: it must be monotonic, and need not show the right time. nil means
	// time.Now.
	Now func() time.Time
}

// New returns the service over a store. No services mean [DefaultService]; the error names the service and the
// member that cannot work. Options may be nil.
func New(store docstore.Store, services []ServiceConfig, o *Options) (*Service, error) {
	planned, err := plan(services)
	if err != nil {
		return nil, err
	}
	return build(store, planned, o), nil
}

// NewDefault is [New] for [DefaultService] alone.
func NewDefault(store docstore.Store, o *Options) *Service {
	planned, err := plan(nil)
	if err != nil {
		panic(err) // the default is a constant
	}
	return build(store, planned, o)
}

func build(store docstore.Store, planned map[string]*service, o *Options) *Service {
	s := &Service{
		store: store, services: planned, spaces: make(map[string]*guarded),
		log: slog.New(slog.DiscardHandler), now: time.Now, spread: mathrand.IntN,
	}
	for _, sv := range planned {
		if s.spaces[sv.space.name] == nil {
			s.spaces[sv.space.name] = &guarded{space: sv.space}
		}
	}
	if o == nil {
		return s
	}
	s.closed, s.most = o.Closed, o.MaxLeases
	if o.Log != nil {
		s.log = o.Log
	}
	if o.Now != nil {
		s.now = o.Now
	}
	return s
}

// Spaces are the names of the configured spaces, in order.
func (s *Service) Spaces() []string { return slices.Sorted(maps.Keys(s.spaces)) }

// DefaultMaxLeases is how many leases the entry points grant to one request, unless they are set up otherwise.
const DefaultMaxLeases = 64

// service finds a service by the name that a caller gave. One that is not configured is as the default one, but for its
// name, by which its leases are counted.
func (s *Service) service(id string) (*service, error) {
	if id == "" {
		id = DefaultServiceID
	}
	if err := field.Text("serviceId", id, MaxServiceIDBytes); err != nil {
		return nil, err
	}
	if sv := s.services[id]; sv != nil {
		return sv, nil
	}
	if sv := s.services[DefaultServiceID]; sv != nil && !s.closed {
		named := *sv
		named.ServiceID = id
		return &named, nil
	}
	return nil, &UnknownServiceError{ServiceID: id}
}

func checkMeta(m map[string]string) error {
	if len(m) > MaxMeta {
		return field.Errorf("meta", "has %d entries, %d at most", len(m), MaxMeta)
	}
	for k, v := range m {
		if err := field.Text("meta", k, MaxMetaKeyBytes); err != nil {
			return field.Errorf("meta", "has a key that cannot be used: 1 to %d bytes of text without control characters",
				MaxMetaKeyBytes)
		}
		if err := field.OptionalText("meta."+k, v, MaxMetaValueBytes); err != nil {
			return err
		}
	}
	return nil
}

// maxTries bounds the writes of one acquire or release. Other callers can change a page 128 times before it is full; a
// thousand callers that begin at the same moment need 25.
const maxTries = 200

// Acquire implements [kazahana.LeaseProvider]: two requests to the store, one read and one write, for any number of
// leases that a page has space for. If it has none, all pages are read as well; a conflict costs one more write.
//
// The error is a [field.Error] or an [*UnknownServiceError], both a [kazahana.ErrConfiguration], an [*EndError], a
// [*kazahana.ExhaustedError] or that of the store. After an error of the store, leases may have been granted without a
// response; they expire by themselves.
func (s *Service) Acquire(ctx context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	sv, err := s.service(o.ServiceID)
	if err != nil {
		return kazahana.AcquireResponse{}, kazahana.Misconfigured(err)
	}
	want, err := sv.leases(o.ThroughputPerMs, s.most)
	if err != nil {
		return kazahana.AcquireResponse{}, kazahana.Misconfigured(err)
	}
	if err := checkMeta(o.Meta); err != nil {
		return kazahana.AcquireResponse{}, kazahana.Misconfigured(err)
	}
	a := acquire{Service: s, sv: sv, sp: s.spaces[sv.space.name], want: want}
	if !o.NotAfter.IsZero() {
		a.NotAfter = docstore.TruncateMilli(o.NotAfter)
	}
	leases, err := a.run(ctx)
	if err != nil {
		return kazahana.AcquireResponse{}, err
	}
	s.granted(ctx, sv, leases, o.Meta)
	return kazahana.AcquireResponse{Leases: leases}, nil
}

// callerKey is that of the caller's name in a context.
type callerKey struct{}

// WithCaller names the verified caller of a request, for the log.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// callerOf is the caller for a log line; no attribute if it has no name.
func callerOf(ctx context.Context) slog.Attr {
	name, _ := ctx.Value(callerKey{}).(string)
	if name == "" {
		return slog.Attr{}
	}
	return slog.String("caller", name)
}

// Bounds of a log line.
const (
	maxLoggedIDs  = 256 // bytes
	maxLoggedMeta = 1024
)

// ranges are machine IDs in ascending order as text: "3,7-9".
func ranges(leases []kazahana.Lease) string {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	slices.Sort(ids)
	var b strings.Builder
	for i := 0; i < len(ids); {
		if b.Len() > maxLoggedIDs {
			return b.String() + ",…"
		}
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(ids[i], 10))
		if last > i {
			b.WriteString("-" + strconv.FormatInt(ids[last], 10))
		}
		i = last + 1
	}
	return b.String()
}

// loggedMeta are labels within bounds: the first in the order of their names.
func loggedMeta(meta map[string]string) map[string]string {
	some, bytes := make(map[string]string), 0
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		v := meta[k]
		if bytes += len(k) + len(v); bytes > maxLoggedMeta {
			some["…"] = strconv.Itoa(len(meta)-len(some)) + " more"
			break
		}
		some[k] = v
	}
	return some
}

// Count is how many leases [Service.Acquire] asks the store for, without a request. The error is a [field.Error] or an
// [*UnknownServiceError].
func (s *Service) Count(o kazahana.AcquireOptions) (int, error) {
	sv, err := s.service(o.ServiceID)
	if err != nil {
		return 0, err
	}
	return sv.leases(o.ThroughputPerMs, s.most)
}

// granted logs who has which machine IDs from when to when, and no secrets.
func (s *Service) granted(ctx context.Context, sv *service, leases []kazahana.Lease, meta map[string]string) {
	if !s.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "machine IDs leased",
		slog.String("space", sv.space.name), slog.String("service", sv.ServiceID), slog.Int("leases", len(leases)),
		slog.String("ids", ranges(leases)),
		slog.Int64("created", leases[0].Created), slog.Int64("expired", leases[0].Expired),
		slog.Any("meta", loggedMeta(meta)), callerOf(ctx))
}

// Release implements [kazahana.LeaseProvider]: one read, and one write if the lease is still held. Without a ServiceID
// the leases of all services with that ID are read, one read for each space, and the signature tells which one is
// released. Where that finds no lease, it may have been granted under widths that the configuration had before: one
// more read.
//
// The error is a [field.Error], an [*UnknownServiceError], [ErrBadSignature] or that of the store.
func (s *Service) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	_, err := s.End(ctx, o)
	return err
}

// Ended is the lease that a release ended. It is zero if nothing was left to release.
type Ended struct {
	ServiceID string    // whose lease it was
	Created   time.Time // its first timestamp
	Free      time.Time // the first timestamp that may be another lease's
}

// End is [Service.Release], and says which lease it ended.
func (s *Service) End(ctx context.Context, o kazahana.ReleaseOptions) (ended Ended, _ error) {
	if _, err := hex.DecodeString(o.Signature); err != nil || len(o.Signature) != 64 {
		return ended, field.Errorf("signature",
			"must be 64 hexadecimal digits: HMAC-SHA256 under the lease's secret of \"id:timestamp\"")
	}
	if o.Timestamp < 0 || o.Timestamp > docstore.MaxInt {
		return ended, field.Errorf("timestamp", "must be a time in Unix milliseconds")
	}
	spaces, err := s.candidates(o)
	if err != nil {
		return ended, err
	}
	names := slices.Sorted(maps.Keys(spaces))
	bad := false
	var damaged error // pages that the lease may be on
	for _, name := range names {
		configured := spaces[name]
		v, err := s.releaseIn(ctx, s.spaces[name], func(geometry) []int { return configured }, o, &ended)
		_, failed := docstore.Failure(err)
		if failed != nil || v == released {
			return ended, failed
		}
		damaged = cmp.Or(damaged, err)
		bad = bad || v == refused
	}
	for _, name := range names {
		sp := s.spaces[name]
		v, err := s.releaseIn(ctx, sp, func(g geometry) []int { return g.otherSizes(sp.layout, spaces[name]) }, o, &ended)
		_, failed := docstore.Failure(err)
		if failed != nil || v == released {
			return ended, failed
		}
		damaged = cmp.Or(damaged, err)
	}
	if bad {
		return ended, ErrBadSignature
	}
	return ended, damaged
}

// candidates are the bits of sequence of leases that the configuration grants, by space: of the service that is named,
// or of all.
func (s *Service) candidates(o kazahana.ReleaseOptions) (map[string][]int, error) {
	services := s.services
	if o.ServiceID != "" {
		sv, err := s.service(o.ServiceID)
		if err != nil {
			return nil, err
		}
		services = map[string]*service{sv.ServiceID: sv}
	}
	most := int64(0)
	spaces := make(map[string][]int)
	for _, sv := range services {
		most = max(most, min(int64(maxUnits), 1<<(sv.BitNode()-2))-1)
		if name := sv.space.name; !slices.Contains(spaces[name], sv.BitSeq) {
			spaces[name] = append(spaces[name], sv.BitSeq)
		}
	}
	return spaces, field.Range("id", o.ID, 0, most)
}

// otherSizes are the bits of sequence of leases that a space can hold, but for those that are known.
func (g geometry) otherSizes(l kazahana.Layout, known []int) (sizes []int) {
	for bitSeq := max(1, g.unit-splitBits); bitSeq <= min(g.unit+slotBits, l.BitNode()-2); bitSeq++ {
		if !slices.Contains(known, bitSeq) {
			sizes = append(sizes, bitSeq)
		}
	}
	return sizes
}

// releaseIn releases the lease of a space that the signature belongs to, if it has one of some numbers of bits of
// sequence, and says in ended which one that was.
func (s *Service) releaseIn(ctx context.Context, sp *guarded, sizes func(geometry) []int,
	o kazahana.ReleaseOptions, ended *Ended) (releaseResult, error) {
	// possible are the sizes with such a machine ID.
	possible := func(g geometry) []int {
		return slices.DeleteFunc(slices.Clone(sizes(g)), func(bitSeq int) bool {
			return o.ID >= 1<<(sp.layout.BitNode()-1-bitSeq)
		})
	}
	seen, err := s.read(ctx, sp, func(g geometry) []int {
		var pages []int
		for _, bitSeq := range possible(g) {
			if index, _ := g.place(bitSeq, o.ID); !slices.Contains(pages, index) {
				pages = append(pages, index)
			}
		}
		return pages
	})
	if err != nil || len(seen.pages) == 0 {
		return notThere, err
	}
	if seen.at == 0 { // none of them could be read
		return notThere, seen.err()
	}
	// In milliseconds: what a caller may send overflows as a duration.
	if off := max(seen.at-o.Timestamp, o.Timestamp-seen.at); off > ReleaseWindow.Milliseconds() {
		return notThere, field.Errorf("timestamp",
			"is %d ms from the server's time, %d at most: sign again, in Unix milliseconds and by the right time",
			off, ReleaseWindow.Milliseconds())
	}
	signature := []byte(strings.ToLower(o.Signature))
	verifies := func(k secret) bool {
		return hmac.Equal([]byte(kazahana.Sign(k.text(), o.ID, o.Timestamp)), signature)
	}
	worst := notThere
	for _, bitSeq := range possible(seen.g) {
		index, first := seen.g.place(bitSeq, o.ID)
		if seen.damaged[index] != nil {
			continue
		}
		size := bitSeq - seen.g.unit
		v, err := s.releaseAt(ctx, sp, seen, index, func(p page, now int64) (page, releaseResult) {
			p = p.fit(size)
			slot := p.slot(seen.g, first)
			after, v := p.release(slot, size+p.split, o.Timestamp, verifies, now)
			if v == released {
				l := p.held[slices.IndexFunc(p.held, func(l lease) bool { return l.slot == slot })]
				*ended = Ended{l.service, time.UnixMilli(l.created).UTC(), time.UnixMilli(after.notBefore[slot]).UTC()}
			}
			return after, v
		})
		if err != nil || v == released {
			return v, err
		}
		worst = max(worst, v)
	}
	return worst, seen.err() // the lease may be there
}

// releaseAt decides about one page and writes it. A refused write returns the page as it is now, which is decided about
// again: if this release was applied before, nothing is left to do.
func (s *Service) releaseAt(ctx context.Context, sp *guarded, seen view, index int,
	decide func(page, int64) (page, releaseResult)) (releaseResult, error) {
	p, now := seen.pages[index], seen.at
	written := false
	for range maxTries {
		after, v := decide(p, now)
		if v != released {
			if written {
				v = released // the lease that the signature belonged to is gone
			}
			return v, nil
		}
		written = true
		r, err := s.store.Write(ctx, after.write(sp.page(index)))
		if err != nil {
			return notThere, fmt.Errorf("release a machine ID of space %q: %w", sp.name, err)
		}
		if r.Applied {
			return released, nil
		}
		if p, err = pageOf(seen.g, sp.page(index), r.Docs[0]); err != nil {
			return notThere, err
		}
		now = r.At.Add(r.Margin).UnixMilli()
	}
	return notThere, busy(sp, maxTries)
}

func busy(sp *guarded, tries int) error {
	return fmt.Errorf("%w: the pages of space %q changed %d times in between", docstore.ErrUnavailable, sp.name, tries)
}

// newSecret draws a secret.
func newSecret() secret {
	var s secret
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// text is the secret as its holder gets it: 32 hexadecimal digits.
func (s secret) text() string { return hex.EncodeToString(s[:]) }
