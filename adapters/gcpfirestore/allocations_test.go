//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package gcpfirestore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	sdk "cloud.google.com/go/firestore"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// tape records the responses of a server to one operation, and then plays them again and again, so that only the client
// works: its library, gRPC and the rule, but no server that allocates.
type tape struct {
	recording bool
	responses [][]byte // to each request: frames of messages
}

func (t *tape) unary(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	o ...grpc.CallOption) error {
	err := invoke(ctx, method, req, res, conn, o...)
	if t.recording && err == nil {
		t.responses = append(t.responses, nil)
		t.add(res)
	}
	return err
}

func (t *tape) stream(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, d, conn, method, o...)
	if t.recording {
		t.responses = append(t.responses, nil)
	}
	return &recorded{s, t}, err
}

// add adds a message to the response to the last request.
func (t *tape) add(m any) {
	b, err := proto.Marshal(m.(proto.Message)) //nolint:forcetypeassert // the service has no others
	if err != nil {
		panic(err)
	}
	last := &t.responses[len(t.responses)-1]
	*last = append(binary.BigEndian.AppendUint32(append(*last, 0), uint32(len(b))), b...)
}

// recorded is a stream whose responses are recorded.
type recorded struct {
	grpc.ClientStream
	tape *tape
}

func (r *recorded) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	if err == nil && r.tape.recording {
		r.tape.add(m)
	}
	return err
}

// play responds to the requests of a connection with the responses, in turn. It is as little of an HTTP/2 server as
// does for that, and allocates nothing.
func play(conn net.Conn, responses [][]byte) error {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	out := bufio.NewWriter(conn)
	f := http2.NewFramer(out, conn)
	f.SetReuseFrames()
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	fields.SetMaxDynamicTableSize(0) // each block means the same every time
	header := func(name, value string) { _ = fields.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	header(":status", "200")
	header("content-type", "application/grpc")
	headers := bytes.Clone(block.Bytes())
	block.Reset()
	header("grpc-status", "0")
	trailers := block.Bytes()
	if err := errors.Join(f.WriteSettings(), out.Flush()); err != nil {
		return err
	}
	for next := 0; ; {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = f.WritePing(true, frame.Data)
			}
		case *http2.DataFrame:
			if n := uint32(len(frame.Data())); n > 0 {
				err = errors.Join(f.WriteWindowUpdate(0, n))
			}
			if frame.StreamEnded() {
				id := frame.StreamID
				err = errors.Join(err,
					f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers, EndHeaders: true}),
					f.WriteData(id, false, responses[next%len(responses)]),
					f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: trailers, EndHeaders: true, EndStream: true}))
				next++
			}
		}
		if err := errors.Join(err, out.Flush()); err != nil {
			return err
		}
	}
}

// onTape builds an operation on a client of an emulator, lets it run once, and returns the same on a client of what was
// recorded then.
func onTape(tb testing.TB, build func(o ...option.ClientOption) (prepare, operation func() error)) func() error {
	tb.Helper()
	t := &tape{}
	dial := func(addr string, o ...grpc.DialOption) option.ClientOption {
		conn, err := grpc.NewClient("passthrough:///"+addr,
			append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close() }) // the client that uses it may have closed it
		return option.WithGRPCConn(conn)
	}
	prepare, operation := build(dial(firestoretest.Start(tb, nil).Addr(), grpc.WithUnaryInterceptor(t.unary),
		grpc.WithStreamInterceptor(t.stream)))
	if err := prepare(); err != nil {
		tb.Fatal(err)
	}
	t.recording = true
	if err := operation(); err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = play(conn, t.responses) // until the client hangs up
			}()
		}
	}()
	_, operation = build(dial(listener.Addr().String()))
	return operation
}

func nothing() error { return nil }

func ours(tb testing.TB, o []option.ClientOption) *lock.Locks {
	tb.Helper()
	s, err := gcpfirestore.Open(context.Background(), &gcpfirestore.Options{Project: project, ClientOptions: o})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return lock.New(s, nil)
}

var lockID = lock.ID{Tenant: "acme", Key: "deploy-prod"}

func acquire(locks *lock.Locks, owner string, want lock.Code) (lock.Outcome, error) {
	o, err := locks.Acquire(context.Background(), lock.Acquire{ID: lockID, Owner: owner,
		RequestID: "018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4e", TTLSeconds: 60})
	if err == nil && o.Code != want {
		err = errors.New(string(o.Code))
	}
	return o, err
}

func cycle(tb testing.TB) func() error {
	tb.Helper()
	return onTape(tb, func(o ...option.ClientOption) (prepare, operation func() error) {
		locks := ours(tb, o)
		return nothing, func() error {
			o, err := acquire(locks, "ann", lock.OK)
			if err != nil {
				return err
			}
			o, err = locks.Release(context.Background(), lock.Release{ID: lockID, Owner: "ann",
				RequestID: "018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4f", Token: o.Lease.Token})
			if err == nil && o.Code != lock.OK {
				err = errors.New(string(o.Code))
			}
			return err
		}
	})
}

func held(tb testing.TB) func() error {
	tb.Helper()
	return onTape(tb, func(o ...option.ClientOption) (prepare, operation func() error) {
		locks := ours(tb, o)
		return func() error {
				_, err := acquire(locks, "ann", lock.OK)
				return err
			}, func() error {
				_, err := acquire(locks, "bob", lock.Held)
				return err
			}
	})
}

// classic is the classic protocol of locks in Firestore, by its ordinary client library: a transaction that reads the
// lock's document and writes it.
type classic struct {
	client *sdk.Client
	doc    *sdk.DocumentRef
}

var errHeld = errors.New("another owner has the lock")

func newClassic(tb testing.TB, o []option.ClientOption) *classic {
	tb.Helper()
	c, err := sdk.NewClient(context.Background(), project, o...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return &classic{c, c.Doc("tenants/acme/locks/deploy-prod")}
}

// change writes the lock for an owner if it is free, or for no owner if it is the owner's.
func (c *classic) change(owner, from, to string) error {
	return c.client.RunTransaction(context.Background(), func(_ context.Context, tx *sdk.Transaction) error {
		token := int64(0)
		snap, err := tx.Get(c.doc)
		if err != nil && status.Code(err) != codes.NotFound {
			return err
		}
		if err == nil {
			data := snap.Data()
			if data["owner"] != from {
				return errHeld
			}
			token, _ = data["token"].(int64)
		}
		return tx.Set(c.doc, map[string]any{"owner": to, "token": token + 1, "request": owner +
			"-018f9c4e-7e2c-7c1a-9d57-1f0a6b2c3d4e", "until": sdk.ServerTimestamp})
	})
}

func classicCycle(tb testing.TB) func() error {
	tb.Helper()
	return onTape(tb, func(o ...option.ClientOption) (prepare, operation func() error) {
		c := newClassic(tb, o)
		return nothing, func() error {
			if err := c.change("ann", "", "ann"); err != nil {
				return err
			}
			return c.change("ann", "ann", "")
		}
	})
}

func classicHeld(tb testing.TB) func() error {
	tb.Helper()
	return onTape(tb, func(o ...option.ClientOption) (prepare, operation func() error) {
		c := newClassic(tb, o)
		return func() error { return c.change("ann", "", "ann") }, func() error {
			if err := c.change("bob", "", "bob"); !errors.Is(err, errHeld) {
				return fmt.Errorf("two holders: %w", err)
			}
			return nil
		}
	})
}

// TestAllocations: on the client a cycle allocates no more than that of the classic protocol, and a refusal does
// neither. The share of gRPC is in both.
func TestAllocations(t *testing.T) {
	count := func(operation func() error) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := operation(); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, c := range []struct {
		name          string
		ours, classic func() error
	}{
		{"a cycle", cycle(t), classicCycle(t)},
		{"held", held(t), classicHeld(t)},
	} {
		got, classic := count(c.ours), count(c.classic)
		t.Logf("%s: %.0f allocations, the classic protocol's %.0f", c.name, got, classic)
		if got > classic {
			t.Errorf("%s: %.0f allocations, more than %.0f", c.name, got, classic)
		}
	}
}

// BenchmarkClient is the client's share of a cycle and of a refusal, and that of the classic protocol, without a server
// and a network.
func BenchmarkClient(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(testing.TB) func() error
	}{{"cycle", cycle}, {"classic-cycle", classicCycle}, {"held", held}, {"classic-held", classicHeld}} {
		b.Run(c.name, func(b *testing.B) {
			operation := c.make(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := operation(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
