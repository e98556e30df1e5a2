package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/redis/go-redis/v9"
)

// script is a Lua script that the server keeps by the SHA-1 of its text.
type script struct{ text, sha string }

// newScript puts begin.lua behind the first line of a script, and what else it begins with.
func newScript(text string, begin ...string) *script {
	flags, rest, _ := strings.Cut(text, "\n")
	return rawScript(flags + "\n" + beginText + strings.Join(begin, "") + rest)
}

func rawScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how Redis names scripts
	return &script{text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed begin.lua
	beginText string
	//go:embed index.lua
	indexText string
	//go:embed count.lua
	countText string
	//go:embed time.lua
	timeText string
	//go:embed whole.lua
	wholeText string
	//go:embed text.lua
	textText string
	//go:embed shape.lua
	shapeText string
	//go:embed write.lua
	writeText string
	//go:embed prune.lua
	pruneText string
	//go:embed layout.lua
	layoutText string
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

	writeScript = newScript(writeText, indexText, countText, timeText, wholeText, textText)
	readScript  = newScript(readText)
	listScript  = newScript(listText)
	pruneScript = newScript(pruneText, indexText, countText)
	fillScript  = newScript(fillText, indexText)
	tidyScript  = newScript(tidyText, indexText)
	keptScript  = newScript(keptText)
	dueScript   = newScript(dueText)
	checkScript = rawScript(checkText)
	claimScript = rawScript(claimText)

	layoutScript = rawScript(layoutText)
)

// fewKeys is how many keys a command has, at most, that is sent together with those of other callers: they all wait for the slowest.
const fewKeys = 16

// reply is what a script on documents answers.
type reply struct {
	outcome any
	at      time.Time
	rest    []any
}

// do runs a script on the documents of a shard that this store opened. Its first key and its first arguments are those of
// begin.lua. doing says what for, in errors.
func (s *Store) do(ctx context.Context, doing string, sc *script, repeatable bool, of *shard, keys, args []string) (reply, error) {
	if err := s.lost(); err != nil {
		return reply{}, s.unknown(doing, err)
	}
	generation, err := s.claim(ctx, of)
	if err != nil {
		return reply{}, s.explain(ctx, doing, err)
	}
	begin := [argsBefore]string{s.now(), generation, strconv.FormatInt(of.known.writes.Load(), 10)}
	command := make([]any, 0, 4+len(keys)+len(begin)+len(args))
	command = append(command, "EVALSHA", sc.sha, 1+len(keys), of.own())
	command = appendTexts(appendTexts(appendTexts(command, keys), begin[:]), args)
	send := s.alone
	if len(keys) < fewKeys {
		send = of.line.send
	}
	list, err := s.evaluate(ctx, send, sc, repeatable, command)
	if err != nil {
		return reply{}, s.explain(ctx, doing, err)
	}
	r, writes, err := parseReply(list)
	if err != nil {
		return reply{}, s.unreadable(doing, err)
	}
	if err := s.learn(of, r.outcome, writes); err != nil {
		return reply{}, s.unknown(doing, err)
	}
	s.lookSometimes()
	return r, nil
}

func parseReply(list []any) (r reply, writes int64, err error) {
	if len(list) < 3 {
		return r, 0, fmt.Errorf("it has %d parts", len(list))
	}
	var ok bool
	if writes, ok = whole(list[2]); !ok {
		return r, 0, fmt.Errorf("the number of writes is %v", list[2])
	}
	r.outcome, r.rest = list[0], list[3:]
	r.at, err = decodeTime(list[1])
	return r, writes, err
}

// whole is a whole number in an answer: compiled scripts return it as one, others as text.
func whole(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// unreadable is the error of an answer that no version of the scripts gives.
func (s *Store) unreadable(doing string, err error) error {
	return fmt.Errorf("redis: %s %s on %s: the script's answer cannot be read, the outcome is unknown: %w", doing, s.keys.root, s.addr, err)
}

// sender sends a command, and returns its response.
type sender func(ctx context.Context, command []any) (any, error)

// alone sends commands on connections of their own.
func (s *Store) alone(ctx context.Context, command []any) (any, error) {
	return send(ctx, s.client, command)
}

// run runs a script. The response is a list.
func (s *Store) run(ctx context.Context, send sender, sc *script, repeatable bool, keys []string, args ...string) ([]any, error) {
	command := append(make([]any, 0, 3+len(keys)+len(args)), "EVALSHA", sc.sha, len(keys))
	for _, k := range keys {
		command = append(command, k) // of a cluster, the library looks at the first
	}
	return s.evaluate(ctx, send, sc, repeatable, appendTexts(command, args))
}

// appendTexts appends texts to a command: as pointers, because a string takes an allocation to become an argument.
func appendTexts(command []any, texts []string) []any {
	for i := range texts {
		command = append(command, &texts[i])
	}
	return command
}

// evaluate sends the command of a script.
func (s *Store) evaluate(ctx context.Context, send sender, sc *script, repeatable bool, command []any) ([]any, error) {
	reply, err := retry(ctx, repeatable, func() (any, error) {
		// The hash is enough, and one round trip. The text follows if the server does not know it: once after each
		// start of the server.
		reply, err := send(ctx, command)
		if sdk.HasErrorPrefix(err, "NOSCRIPT") {
			whole := slices.Clone(command) // the first one may still be on its way
			whole[0], whole[1] = "EVAL", sc.text
			reply, err = send(ctx, whole)
		}
		return reply, err
	})
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("the script's answer is %T, and no list", reply)
	}
	return list, nil
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
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}
