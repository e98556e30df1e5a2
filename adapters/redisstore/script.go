package redisstore

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// script is a Lua script that the server keeps by the SHA-1 of its text.
type script struct {
	text    string
	sha     any      // a text, ready to be an argument
	carried string   // the text of a write that [carryScript] carries out, empty of all others
	origins []origin // of a single write: see [source]
}

// newScript puts begin.lua behind the first line of a script, and what else it begins with.
func newScript(text string, begin ...string) *script {
	flags, rest, _ := strings.Cut(text, "\n")
	return rawScript(flags + "\n" + strings.NewReplacer("$STOP\n", stopText, "$WROTE\n", wroteText).Replace(
		beginText+strings.Join(begin, "")+rest))
}

func rawScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how Redis names scripts
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

var (
	//go:embed begin.lua
	beginText string
	//go:embed stop.lua
	stopText string
	//go:embed wrote.lua
	wroteText string
	//go:embed index.lua
	indexText string
	//go:embed count.lua
	countText string
	//go:embed text.lua
	textText string
	//go:embed write.lua
	writeText string
	//go:embed found.lua
	foundText string
	//go:embed change.lua
	changeText string
	//go:embed delete.lua
	deleteText string
	//go:embed several.lua
	severalText string
	//go:embed carry.lua
	carryText string
	//go:embed prune.lua
	pruneText string
	//go:embed layout.lua
	layoutText string
	//go:embed identity.lua
	identityText string
	//go:embed server.lua
	serverText string
	//go:embed claim.lua
	claimText string
	//go:embed read.lua
	readText string
	//go:embed list.lua
	listText string
	//go:embed due.lua
	dueText string
	//go:embed fill.lua
	fillText string
	//go:embed kept.lua
	keptText string
	//go:embed tidy.lua
	tidyText string
	//go:embed check.lua
	checkText string
	//go:embed mark.lua
	markText string
	//go:embed raised.lua
	raisedText string

	carryScript = rawScript(carryText)
	readScript  = newScript(readText)
	listScript  = newScript(listText)
	pruneScript = newScript(pruneText, textText, indexText, countText)
	fillScript  = newScript(fillText, textText, indexText)
	tidyScript  = newScript(tidyText, textText, indexText)
	keptScript  = newScript(keptText)
	dueScript   = newScript(dueText)
	checkScript = rawScript(checkText)
	claimScript = rawScript(strings.Replace(claimText, "$SERVER\n", identityText, 1))

	serverScript = rawScript(strings.Replace(serverText, "$SERVER\n", identityText, 1))

	layoutScript = rawScript(layoutText)
	markScript   = rawScript(markText)
	raisedScript = newScript(raisedText)
)

// fewKeys is how many keys a command has, at most, that is sent together with those of other callers: they all wait for
// the slowest.
const fewKeys = 16

// reply is what a script on documents answers.
type reply struct {
	outcome string
	at      time.Time
	rest    unpacker // what follows
}

// do runs a script on the documents of a shard that this store opened. Its first key, and the beginning of its only
// argument, are those of begin.lua; args is the rest of that. doing says what for, in errors; step is what the
// script carries out, if that must not be done twice.
func (s *Store) do(ctx context.Context, doing string, sc *script, step []docstore.Write, of *shard, keys []string,
	args []byte) (reply, error) {
	r, err := s.doOnce(ctx, doing, sc, step, of, keys, args)
	if errors.Is(err, errRaised) { // nothing was done, and it is known now
		r, err = s.doOnce(ctx, doing, sc, step, of, keys, args)
	}
	return r, err
}

func (s *Store) doOnce(ctx context.Context, doing string, sc *script, step []docstore.Write, of *shard, keys []string,
	args []byte) (reply, error) {
	if err := cmp.Or(s.lost(), s.evicting()); err != nil {
		s.lookSometimes()
		return reply{}, s.unknown(doing, err)
	}
	s.conns.Begin()
	known, err := s.claim(ctx, of)
	if err != nil {
		return reply{}, s.explain(ctx, doing, err)
	}
	if !s.repair && strings.HasPrefix(known.generation, lostMark) {
		s.stop(ctx, raisedIn(known.generation), true)
		return reply{}, s.unknown(doing, errBack)
	}
	arg := make([]byte, 0, 96+len(args))
	if s.clock == nil {
		arg = appendNil(arg)
	} else {
		arg = appendInt(arg, docstore.TruncateMilli(s.clock()).UnixMilli())
	}
	arg = appendInt(appendText(arg, "", known.generation), known.writes.Load())
	arg = append(appendInt(appendText(arg, "", s.name), known.own.Load()), args...)
	command := append(make([]any, 0, 6+len(keys)), "EVALSHA", sc.sha, 1+len(keys), of.first)
	for i := range keys {
		command = append(command, &keys[i]) // a string would take an allocation to become an argument
	}
	send := s.alone
	if len(keys) < fewKeys {
		send = of.line.send
	}
	send = s.meeting(of, send)
	command = append(command, arg)
	if sc.carried != "" {
		command = append(command, &sc.carried)
	}
	answer, err := s.evaluate(ctx, send, sc, step, command)
	if err != nil {
		return reply{}, s.explain(ctx, doing, err)
	}
	r, writes, err := parseReply(answer)
	if err == nil {
		if err = s.learn(ctx, of, known, r, writes); err != nil && !errors.Is(err, errPacked) {
			return reply{}, s.unknown(doing, err)
		}
	}
	if err != nil {
		return reply{}, s.unreadable(doing, err)
	}
	s.lookSometimes()
	return r, nil
}

func parseReply(answer any) (r reply, writes int64, err error) {
	text, ok := answer.(string)
	if !ok {
		return r, 0, fmt.Errorf("it is %T, and no text", answer)
	}
	r.rest = unpacker{text}
	outcome := r.rest.next()
	at, errAt := r.rest.number()
	writes, err = r.rest.number()
	if outcome.kind != isText || errAt != nil || err != nil {
		return r, 0, errPacked
	}
	r.outcome, r.at = outcome.text, time.UnixMilli(at).UTC()
	return r, writes, nil
}

// unreadable is the error of an answer that no version of the scripts gives.
func (s *Store) unreadable(doing string, err error) error {
	return fmt.Errorf("redis: %s %s on %s: the script's answer cannot be read, the outcome is unknown: %w", doing,
		s.keys.root, s.addr, err)
}

// sender sends a command, and returns its response.
type sender func(ctx context.Context, command []any) (any, error)

// alone sends commands on connections of their own.
func (s *Store) alone(ctx context.Context, command []any) (any, error) {
	return send(ctx, s.client, command)
}

// run runs a script that is not on documents. The response is a list.
func (s *Store) run(ctx context.Context, sc *script, keys []string, args ...string) ([]any, error) {
	command := append(make([]any, 0, 3+len(keys)+len(args)), "EVALSHA", sc.sha, len(keys))
	for _, k := range keys {
		command = append(command, k) // of a cluster, the library looks at the first
	}
	for _, a := range args {
		command = append(command, a)
	}
	reply, err := s.evaluate(ctx, s.alone, sc, nil, command)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("the script's answer is %T, and no list", reply)
	}
	return list, nil
}

// evaluate sends the command of a script.
func (s *Store) evaluate(ctx context.Context, send sender, sc *script, writes []docstore.Write, command []any) (any,
	error) {
	return s.retry(ctx, writes, func() (any, error) {
		// The hash is enough, and one round trip. The text follows if the server does not know it: once after each
		// start of the server.
		reply, err := send(ctx, command)
		if err != nil && sdk.HasErrorPrefix(err, "NOSCRIPT") {
			whole := slices.Clone(command) // the first one may still be on its way
			whole[0], whole[1] = "EVAL", sc.text
			reply, err = send(ctx, whole)
		}
		return reply, err
	})
}

// once is a command that the library must not send again by itself when its response does not come.
type once struct{ *sdk.Cmd }

// NoRetry implements [sdk.Cmder].
func (once) NoRetry() bool { return true }

// send sends a command and waits for its response or for the end of the context. While it waits for the server the
// library honors a deadline but not a cancellation, so that another caller has to wait for it.
func send(ctx context.Context, c sdk.UniversalClient, command []any) (any, error) {
	cmd := once{sdk.NewCmd(ctx, command...)}
	answered := make(chan error, 1)
	go func() { answered <- c.Process(ctx, cmd) }()
	select {
	case err := <-answered:
		if err != nil {
			return nil, ended(ctx, err)
		}
		return cmd.Val(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ended returns the end of the context where that is why a connection broke off. The connection has the same deadline,
// by a clock of its own that may be ahead.
func ended(ctx context.Context, err error) error {
	if cause := docstore.Gone(ctx); cause != nil {
		return cause
	}
	return err
}
