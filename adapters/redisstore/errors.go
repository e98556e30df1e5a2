package redisstore

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// refusals are the errors by which the server says that it did not do what it was asked, by how they begin. Those
// with a sentinel are [docstore.ErrUnavailable] or [docstore.ErrDamaged]; the others need someone to change a setting.
var refusals = []struct {
	prefix string
	is     error
	means  string
}{
	{"LOADING", docstore.ErrUnavailable, "the server is loading its data: nothing was changed, try again"},
	{"READONLY", docstore.ErrUnavailable,
		"the server is a replica, which does not write and may be behind: nothing was changed; name the primary"},
	{"MASTERDOWN", docstore.ErrUnavailable,
		"the server is a replica that has lost its primary: nothing was changed; name the primary"},
	{"CLUSTERDOWN", docstore.ErrUnavailable,
		"the cluster is down, or no server has the slot of these keys: nothing was changed"},
	{"TRYAGAIN", docstore.ErrUnavailable,
		"the slot of these keys is moving to another member: nothing was changed, try again"},
	{"BUSY", docstore.ErrUnavailable, "a script keeps the server busy: nothing was changed; see SCRIPT KILL"},
	{"NOREPLICAS", docstore.ErrUnavailable,
		"fewer replicas are connected than min-replicas-to-write asks for: nothing was changed"},
	{"max number of clients reached", docstore.ErrUnavailable,
		"the server has as many clients as maxclients allows: nothing was changed"},
	{"OOM", docstore.ErrFull, "the server is out of memory: nothing was changed; raise maxmemory, reading still works"},
	{"MISCONF", docstore.ErrUnavailable,
		"the server cannot write to its disk and refuses to go on: nothing was changed; see its log"},
	{"WRONGTYPE", docstore.ErrDamaged,
		"one of the keys holds something else than Leasehold put there: nothing was changed; name another prefix"},
	{"DAMAGED", docstore.ErrDamaged,
		"what is stored in the place of a document is none: nothing was changed; name another prefix"},
	{"NOAUTH", nil, "the server asks for a password, and none was given: set a user and a password"},
	{"WRONGPASS", nil, "the user or the password is not accepted"},
	{"NOPERM", nil, "this user may not do that: " + permissions},
	{"The user executing the script", nil, "this user may not do that any more: " + permissions},
	{"NOPROTO", nil, "the server is too old: version 7 or later is needed"},
	{"MOVED", nil,
		"the server is a member of a cluster, and this client does not follow it: give Open the address, or a client of the cluster"},
	{"SELECT is not allowed in cluster mode", nil,
		"a cluster has no database but 0: leave out DB, and tell stores apart by Prefix"},
	{"DB index is out of range", nil, "there is no database of this number: see databases in the server's configuration"},
	{"Error compiling script", nil, "the server does not understand the script: version 7 or later is needed"},
}

// permissions are what a user of the store's own needs.
const permissions = "it needs ~{PREFIX}:* (and ~{PREFIX/* for several shards) +@string +@sortedset +@scripting +@connection +time, and +info +config|get for the checks of its settings, +info also to know one server from another"

// explain turns an error of the library into one that names the server and says what to do.
func (s *Store) explain(ctx context.Context, doing string, err error) error {
	subject := fmt.Sprintf("redis: %s %s on %s", doing, s.keys.root, s.addr)
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: ended by the caller, its outcome is unknown: %w", subject, cause)
	}
	if other, ok := errors.AsType[layoutError](err); ok {
		return fmt.Errorf("%w: %s: nothing was changed: %w", docstore.ErrNotWritten, subject, other)
	}
	for _, r := range refusals {
		if !sdk.HasErrorPrefix(err, r.prefix) {
			continue
		}
		if errors.Is(r.is, docstore.ErrUnavailable) {
			return fmt.Errorf("%w: %w: %s: %s: %w", r.is, docstore.ErrNotWritten, subject, r.means, err)
		}
		if r.is != nil {
			return fmt.Errorf("%w: %s: %s: %w", r.is, subject, r.means, err)
		}
		return fmt.Errorf("%s: %s: %w", subject, r.means, err)
	}
	if errors.Is(err, errDial) && errors.Is(err, sdk.Nil) {
		return fmt.Errorf("%w: %w: %s: the Sentinels know no master of this name, nothing was sent: %w",
			docstore.ErrUnavailable, docstore.ErrNotWritten, subject, err)
	}
	if _, answered := errors.AsType[sdk.Error](err); answered && !errors.Is(err, errDial) {
		// Whatever stands between here and the server may speak for it.
		return fmt.Errorf("%w: %s: the server failed, the outcome is unknown: %w", docstore.ErrUnavailable, subject, err)
	}
	if unsent(err) {
		return fmt.Errorf(
			"%w: %w: %s: no connection could be made, nothing was sent: check the address and that the server runs: %w",
			docstore.ErrUnavailable, docstore.ErrNotWritten, subject, err)
	}
	if docstore.Gone(ctx) != nil {
		return fmt.Errorf("%s: ended by the caller, its outcome is unknown: %w", subject, err)
	}
	return fmt.Errorf("%w: %s: there was no answer, the outcome is unknown: %w", docstore.ErrUnavailable, subject, err)
}
