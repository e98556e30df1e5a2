package redisstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	sdk "github.com/redis/go-redis/v9"
)

// replyRoom bounds the parts and the bytes of what a server says on a [wire]: it is a few names.
const replyRoom = 1 << 20

// wire is a connection of its own on which the server says something without being asked. The library has none: it
// looks for that only when it sends a command. The protocol is RESP3.
type wire struct {
	net.Conn

	in *bufio.Reader
}

// command writes a command.
func command(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// rejected is a rejection by the server.
type rejected string

func (e rejected) Error() string { return string(e) }

// RedisError says that it is one, for [sdk.HasErrorPrefix].
func (rejected) RedisError() {}

var _ sdk.Error = rejected("")

// errReply is why a connection is given up.
var errReply = errors.New("the server's reply cannot be read")

// say sends commands.
func (w *wire) say(commands []byte) error {
	if err := w.SetWriteDeadline(time.Now().Add(trackWithin)); err != nil {
		return err
	}
	_, err := w.Write(commands)
	return err
}

// next reads what the server says next: a response, which may be a rejection, or something that was not asked for. Of
// lists it returns the texts in order, whatever their nesting.
func (w *wire) next(within time.Duration) (texts []string, unasked bool, err error) {
	if err := w.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, false, err
	}
	kind, err := w.value(&texts)
	return texts, kind == '>', err
}

// value reads one value.
func (w *wire) value(texts *[]string) (kind byte, err error) {
	head, err := w.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if len(head) < 3 || head[len(head)-2] != '\r' || len(*texts) > replyRoom {
		return 0, errReply
	}
	kind, rest := head[0], head[1:len(head)-2]
	var parts int
	switch kind {
	case '-':
		return kind, rejected(rest)
	case '+', ':', ',', '#', '(', '_':
		*texts = append(*texts, rest)
		return kind, nil
	case '$', '=', '*', '>', '~', '%':
		if parts, err = strconv.Atoi(rest); err != nil || parts > replyRoom {
			return 0, errReply
		}
	default:
		return 0, errReply
	}
	if kind == '$' || kind == '=' {
		if parts < 0 {
			return kind, nil
		}
		text := make([]byte, parts+2)
		if _, err := io.ReadFull(w.in, text); err != nil {
			return 0, err
		}
		*texts = append(*texts, string(text[:parts]))
		return kind, nil
	}
	if kind == '%' {
		parts *= 2
	}
	for range parts {
		if _, err := w.value(texts); err != nil {
			return 0, err
		}
	}
	return kind, nil
}
