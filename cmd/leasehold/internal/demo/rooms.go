package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

const (
	cluster   = "chat"
	roomKind  = "room"
	lobby     = "lobby"
	memberTTL = time.Second
	callers   = 5
)

// member is the one that is to die.
type member struct {
	name string
	die  context.CancelFunc // ends its heartbeats

	mu   sync.Mutex
	held time.Time // until when its lease lasts, as the server said last
}

func (m *member) lasts(s contracts.MemberState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, err := time.Parse(contracts.TimeFormat, s.ExpiresAt); err == nil {
		m.held = t
	}
}

func (m *member) end() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// join makes a member of the cluster.
func (d *play) join(ctx context.Context, chat *client.Placements, name string,
	ttl time.Duration) (contracts.MemberState, error) {
	s, err := chat.Join(ctx, name, contracts.MemberJoinRequest{Kinds: []string{roomKind},
		TTLSeconds: int64(ttl / time.Second)})
	if err == nil {
		d.sayf(name, "join → 200, incarnation %d, a lease of %v", s.Incarnation, ttl)
	}
	return s, err
}

// live makes a member and keeps it alive until it dies.
func (d *play) live(ctx context.Context, chat *client.Placements, name string) (*member, error) {
	s, err := d.join(ctx, chat, name, memberTTL)
	if err != nil {
		return nil, err
	}
	m := &member{name: name}
	m.lasts(s)
	ctx, m.die = context.WithCancel(ctx)
	number := s.Incarnation
	go func() {
		for seq := int64(1); ctx.Err() == nil; seq++ {
			pause(ctx, memberTTL/4)
			s, err := chat.Heartbeat(ctx, name, contracts.MemberHeartbeatRequest{Incarnation: number, Seq: seq,
				TTLSeconds: int64(memberTTL / time.Second)})
			if err == nil {
				m.lasts(s)
			}
		}
	}()
	return m, nil
}

// place lets five callers ask for one chat room, kills the member that serves it, and lets another one take over. It
// counts how many members serve the room at a time.
func (d *play) place(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // no heartbeats outlive the scene
	c, err := client.New(d.url, nil)
	if err != nil {
		return err
	}
	chat := c.Placements(tenant, cluster)
	first, err := d.live(ctx, chat, "member-a")
	if err != nil {
		return err
	}
	var (
		serving gauge
		mu      sync.Mutex
		told    = map[int64]int{} // callers by the token of what they were shown
	)
	activate := func(a contracts.Activation) error {
		serving.enter()
		d.sayf(a.Member, "serves the room under token %d", a.FencingToken)
		_, err := chat.Activated(ctx, roomKind, lobby, contracts.ActivationHoldRequest{
			Member: a.Member, Incarnation: a.Incarnation, FencingToken: a.FencingToken})
		return err
	}
	ask := func(ctx context.Context, who string) error {
		a, granted, err := d.claim(ctx, chat, who)
		if err != nil {
			return err
		}
		mu.Lock()
		told[a.FencingToken]++
		mu.Unlock()
		if granted {
			return activate(a)
		}
		return nil
	}
	if err := together(ctx, ask, "caller 1", "caller 2", "caller 3", "caller 4", "caller 5"); err != nil {
		return err
	}
	entered, most := serving.seen()
	d.check(entered == 1 && most == 1 && len(told) == 1, "a room that five callers ask for is active once",
		"%d activation, and all %d callers were told of it", entered, callers)
	if _, err := d.join(ctx, chat, "member-b", time.Minute); err != nil {
		return err
	}
	return d.failOver(ctx, chat, first, &serving, activate)
}

// failOver kills the member that serves the chat room, and lets another one take over. The lease of that one is long
// enough to do without heartbeats.
func (d *play) failOver(
	ctx context.Context, chat *client.Placements, dead *member, serving *gauge, activate func(contracts.Activation) error,
) error {
	first, err := chat.Activation(ctx, roomKind, lobby)
	if err != nil {
		return err
	}
	hold := contracts.ActivationStateRequest{Member: first.Member, Incarnation: first.Incarnation,
		FencingToken: first.FencingToken, State: []byte("3 players")}
	if _, err := chat.WriteState(ctx, roomKind, lobby, hold); err != nil {
		return err
	}
	dead.die()
	serving.leave()
	d.sayf("demo", "%s is killed and releases nothing; the state that it stored for the room is “3 players”", dead.name)
	var second contracts.Activation
	for granted := false; !granted; {
		if second, granted, err = d.claim(ctx, chat, "caller 1"); err != nil {
			return err
		}
		if !granted {
			pause(ctx, memberTTL/4)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	at, held := time.Now(), dead.end()
	if err := activate(second); err != nil {
		return err
	}
	hold.StateVersion, hold.State = 1, []byte("4 players")
	_, err = chat.WriteState(ctx, roomKind, lobby, hold)
	late := code(err)
	if late == "" && err != nil {
		return err
	}
	d.sayf(dead.name, "a late write with token %d → %s", first.FencingToken, orOK(late))
	now, err := d.rooms.Lookup(ctx, placement.Lookup{
		Cluster: placement.Cluster{Tenant: tenant, Name: cluster}, Identity: placement.Identity{Kind: roomKind, ID: lobby},
	})
	if err != nil {
		return err
	}
	_, most := serving.seen()
	d.check(most == 1 && second.FencingToken > first.FencingToken && second.Member != first.Member && !at.Before(held) &&
		now.Activation.Owner.Member == second.Member,
		"after its member died another one serves it, not before the lease has run out",
		"%s with token %d after token %d; the lease ended at %s, the claim was granted at %s", second.Member,
		second.FencingToken, first.FencingToken,
		held.Format(clock), at.UTC().Format(clock))
	d.check(late == contracts.CodeStaleToken && string(now.Activation.State) == "3 players",
		"what the dead member still writes is refused, and its state is kept",
		"%s, and the state is “%s”", orOK(late), now.Activation.State)
	return nil
}

// claim asks for the room once, and says whether this call obtained it.
func (d *play) claim(ctx context.Context, chat *client.Placements, who string) (contracts.Activation, bool, error) {
	o, err := chat.Claim(ctx, roomKind, lobby, contracts.ActivationClaimRequest{})
	if err == nil {
		d.sayf(who, "claim → 200: %s is to serve it, token %d", o.Activation.Member, o.Activation.FencingToken)
		return o.Activation, true, nil
	}
	there, ok := errors.AsType[*contracts.Error](err)
	if !ok || there.Activation == nil {
		return contracts.Activation{}, false, err
	}
	d.sayf(who, "claim → 409 %s on %s, token %d", there.Code, there.Activation.Member, there.Activation.FencingToken)
	return *there.Activation, false, nil
}
