package placement_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestJoinsAtOnce: a hundred members join at the same moment, each a process of its own, on a store that is ten
// milliseconds away. There are as many epochs as members, and who comes too late lets others go first: without pauses
// it takes five times the requests.
func TestJoinsAtOnce(t *testing.T) {
	const joins = 100
	cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: docstore.NewMemory(nil)}
		far := suite.NewFar(store, 10*time.Millisecond, 1)
		begin := time.Now()
		var done sync.WaitGroup
		for n := range joins {
			done.Go(func() {
				o, err := placement.New(far, nil).Join(context.WithoutCancel(t.Context()), placement.Join{
					Cluster: cluster, Member: fmt.Sprint("m", n), RequestID: "j", TTL: time.Minute, Partitions: 256,
					Offer: placement.Offer{Kinds: []string{"room"}},
				})
				if err != nil || o.Code != placement.OK || o.Replayed {
					t.Errorf("%+v, %v", o, err)
				}
			})
		}
		done.Wait()
		took, n := time.Since(begin), store.took()
		top, err := placement.New(store, nil).Topology(t.Context(), cluster)
		if err != nil || top.Epoch != joins || len(top.Members) != joins {
			t.Fatalf("%+v, %v", top, err)
		}
		t.Logf("%d reads, %d writes, %v", n[0], n[1], took)
		if reads, writes := n[0]/joins, n[1]/joins; reads > 25 || writes > 15 || took > 10*time.Second {
			t.Errorf("each join took %d reads and %d writes, all of them %v", reads, writes, took)
		}
	})
}

// joins are those of many members at the same moment.
type joins struct {
	*testing.T
	store *counted
	far   *suite.Far
	done  sync.WaitGroup
}

func newJoins(t *testing.T) *joins {
	t.Helper()
	store := &counted{Store: docstore.NewMemory(nil)}
	return &joins{T: t, store: store, far: suite.NewFar(store, 10*time.Millisecond, 1)}
}

var joined = placement.Cluster{Tenant: "acme", Name: "prod"}

// joinOf is a join that waits for others.
func joinOf(member string) placement.Join {
	return placement.Join{Cluster: joined, Member: member, RequestID: "j", TTL: time.Minute, Partitions: 256,
		Offer: placement.Offer{Kinds: []string{"room"}}}
}

// begin sends a join, and checks what comes of it.
func (j *joins) begin(s *placement.Service, c placement.Join, check func(placement.MemberOutcome, time.Duration)) {
	begin := time.Now()
	j.done.Go(func() {
		o, err := s.Join(context.WithoutCancel(j.Context()), c)
		if err != nil {
			j.Errorf("%s: %v", c.Member, err)
		}
		check(o, time.Since(begin))
	})
}

// topology is what another process reads.
func (j *joins) topology() *placement.Topology {
	j.Helper()
	top, err := placement.New(j.store, nil).Topology(context.WithoutCancel(j.Context()), joined)
	if err != nil {
		j.Fatal(err)
	}
	return top
}

// TestJoinsThatWait: a hundred members join at the same moment, and wait a second for each other. Of one server they
// are 5 epochs, of three servers 6, instead of a hundred, and each is a member when it is told so.
func TestJoinsThatWait(t *testing.T) {
	const many = 100
	for _, c := range []struct {
		servers               int
		epoch                 int64
		mostReads, mostWrites int
	}{{1, 5, 5, 6}, {3, 6, 20, 20}} {
		t.Run(strconv.Itoa(c.servers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJoins(t)
				var servers []*placement.Service
				for range c.servers {
					servers = append(servers, placement.New(j.far, &placement.Options{JoinDelay: time.Second}))
				}
				for n := range many {
					s := servers[n%len(servers)]
					j.begin(s, joinOf(fmt.Sprint("m", n)), func(o placement.MemberOutcome, took time.Duration) {
						top := s.Cached(joined)
						if o.Code != placement.OK || o.Replayed || o.Epoch > top.Epoch || !top.Live(o.Incarnation) ||
							!o.ExpiresAt.Equal(o.At.Add(time.Minute)) || took < time.Second || took > 2*time.Second {
							t.Errorf("%+v after %v, in epoch %d", o, took, top.Epoch)
						}
					})
				}
				j.done.Wait()
				n := j.store.took()
				if top := j.topology(); top.Epoch != c.epoch || len(top.Members) != many {
					t.Errorf("epoch %d with %d members, want %d", top.Epoch, len(top.Members), c.epoch)
				}
				if t.Logf("%d reads, %d writes", n[0], n[1]); n[0] > c.mostReads || n[1] > c.mostWrites {
					t.Errorf("%d reads and %d writes, want %d and %d at most", n[0], n[1], c.mostReads, c.mostWrites)
				}
			})
		})
	}
}

// TestEachJoinThatWaits: joins that wait together are told what each would be told by itself, and those that must not
// wait do not.
func TestEachJoinThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoins(t)
		s := placement.New(j.far, &placement.Options{JoinDelay: time.Second})
		alone := placement.New(j.far, nil)
		var old placement.MemberOutcome
		for _, name := range []string{"lives", "again", "old"} {
			j.begin(alone, joinOf(name), func(o placement.MemberOutcome, _ time.Duration) {
				if name == "old" {
					old = o
				}
			})
		}
		dead := joinOf("dead")
		dead.TTL = time.Second
		j.begin(alone, dead, func(placement.MemberOutcome, time.Duration) {})
		j.done.Wait()
		time.Sleep(2 * time.Second)
		before := j.topology().Epoch
		type want struct {
			code     placement.Code
			replayed bool
			waits    bool
		}
		told := func(name string, want want, change func(*placement.Join)) {
			c := joinOf(name)
			if change != nil {
				change(&c)
			}
			j.begin(s, c, func(o placement.MemberOutcome, took time.Duration) {
				if o.Code != want.code || o.Replayed != want.replayed || took >= time.Second != want.waits {
					t.Errorf("%s: %+v after %v, want %+v", name, o, took, want)
				}
			})
		}
		told("new", want{placement.OK, false, true}, nil)
		told("dead", want{placement.OK, false, true}, func(c *placement.Join) { c.RequestID = "other" })
		told("again", want{placement.OK, true, true}, nil)
		told("lives", want{placement.MemberExists, false, true}, func(c *placement.Join) { c.RequestID = "other" })
		told("other", want{placement.ClusterDiffers, false, true}, func(c *placement.Join) { c.Partitions = 512 })
		now := time.Now().Truncate(time.Millisecond)
		told("ends", want{placement.OK, false, true}, func(c *placement.Join) { c.NotAfter = now.Add(time.Minute) })
		told("late", want{placement.TooLate, false, false}, func(c *placement.Join) {
			c.NotAfter = now.Add(time.Millisecond)
		})
		told("far", want{placement.TooFar, false, true}, func(c *placement.Join) {
			c.NotAfter = now.Add(3 * time.Hour)
		})
		told("heir", want{placement.OK, false, false}, func(c *placement.Join) { c.Replaces = old.Incarnation })
		told("short", want{placement.OK, false, false}, func(c *placement.Join) { c.TTL = 3 * time.Second })
		j.done.Wait()
		if top := j.topology(); top.Epoch != before+3 || top.Find("late") != nil || top.Find("far") != nil {
			t.Errorf("%d epochs with %+v", top.Epoch-before, top.Members)
		}
	})
}

// TestJoinsInAHurry: a join whose caller, or whose end, leaves too little time does not wait, and is carried out.
func TestJoinsInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoins(t)
		s := placement.New(j.far, &placement.Options{JoinDelay: time.Second})
		for i, left := range []time.Duration{900 * time.Millisecond, time.Second, 2*time.Second - 1, 2*time.Second + 1,
			20 * time.Second} {
			for _, ends := range []bool{false, true} {
				c := joinOf(fmt.Sprintf("m%d-%v", i, ends))
				ctx, cancel := context.WithCancel(t.Context())
				if ends {
					c.NotAfter = time.Now().Add(left)
				} else {
					ctx, cancel = context.WithTimeout(t.Context(), left)
				}
				begin := time.Now()
				o, err := s.Join(ctx, c)
				cancel()
				waited := time.Since(begin) >= time.Second
				if err != nil || o.Code != placement.OK || waited != (left > 2*time.Second) {
					t.Errorf("%v left, an end: %v: %+v, %v; it waited: %v", left, ends, o, err, waited)
				}
			}
		}
	})
}

// TestFirstJoinsThatWait: of those that would set a cluster up with different numbers of partitions, one does.
func TestFirstJoinsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoins(t)
		s := placement.New(j.far, &placement.Options{JoinDelay: time.Second})
		codes := make([]placement.Code, 2)
		for i := range codes {
			c := joinOf(fmt.Sprint("m", i))
			c.Partitions <<= i
			j.begin(s, c, func(o placement.MemberOutcome, _ time.Duration) { codes[i] = o.Code })
		}
		j.done.Wait()
		slices.Sort(codes)
		if want := []placement.Code{placement.ClusterDiffers, placement.OK}; !slices.Equal(codes, want) {
			t.Errorf("%v, want %v", codes, want)
		}
	})
}

// TestWhoseJoinIsGivenUp: of joins that wait together, one that is given up is in no epoch, and keeps no other from it,
// also if it is the first, or if the store does not respond to that.
func TestWhoseJoinIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool // gives up while it waits
		after time.Duration
	}{{"first", true, time.Second}, {"second", false, time.Second}, {"hung", true, 7 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJoins(t)
				hung := make(chan struct{})
				store := &hanging{Store: j.far}
				if c.name == "hung" {
					store.until = hung
				}
				s := placement.New(store, &placement.Options{JoinDelay: time.Second})
				ctx, cancel := context.WithCancel(t.Context())
				for i, name := range []string{"first", "second", "third"} {
					if given := (i == 0) == c.first && i < 2; given {
						j.done.Go(func() {
							if o, err := s.Join(ctx, joinOf(name)); err == nil {
								t.Errorf("%s: %+v", name, o)
							}
						})
					} else {
						j.begin(s, joinOf(name), func(o placement.MemberOutcome, took time.Duration) {
							if o.Code != placement.OK || took > c.after+time.Second {
								t.Errorf("%s: %+v after %v", name, o, took)
							}
						})
					}
					time.Sleep(time.Millisecond)
				}
				if time.Sleep(100 * time.Millisecond); c.name == "hung" {
					time.Sleep(10 * time.Second)
				}
				cancel()
				close(hung)
				j.done.Wait()
				if top := j.topology(); len(top.Members) != 2 {
					t.Errorf("%+v", top.Members)
				}
			})
		})
	}
}

// hanging is a store whose first write, or none, waits and is lost.
type hanging struct {
	docstore.Store
	mu    sync.Mutex
	until chan struct{} // nil: none
}

func (h *hanging) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	h.mu.Lock()
	until := h.until
	h.until = nil
	h.mu.Unlock()
	if until != nil {
		<-until
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return h.Store.Write(ctx, writes...)
}
