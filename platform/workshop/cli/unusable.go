package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/config"
)

// The exit codes for unusable stores, distinct from those of `run`'s own stores
// in platform/workshop/embedded, so that a supervisor can tell a temporary
// outage (refused, silent) from a wrong setting.
const (
	exitStoreRefused     = 30 // nothing listens there
	exitStoreHostUnknown = 31
	exitStoreSilent      = 32 // no answer in time
	exitStoreLogin       = 33 // user or password
	exitStoreNoDatabase  = 34
	exitStoreTooOld      = 35
	exitStoreOther       = 36 // another kind of server, or one that refuses for another reason
)

// storeError is one sentence about an unusable store: its address without the
// password, the cause, and what to do next.
type storeError struct {
	sentence string
	exit     int
}

func (e *storeError) Error() string { return e.sentence }

// ExitCode returns the process's exit code.
func (e *storeError) ExitCode() int { return e.exit }

// unusable turns a driver's error into a storeError.
func (s store) unusable(err error) error {
	at, correct := config.Places(s.url), fmt.Sprintf("correct %s (%s)", s.flag, s.variable)
	tell := func(exit int, format string, args ...any) error {
		return &storeError{sentence: fmt.Sprintf(format, args...), exit: exit}
	}
	if old, ok := errors.AsType[tooOldError](err); ok {
		return tell(exitStoreTooOld, "%s at %s is version %s: upgrade it to %s or newer, or %s.", s.name, at, old.version, s.least, correct)
	}
	full, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return tell(exitStoreOther, "%s at %s runs without JetStream: enable it there (jetstream { store_dir: …, sync_interval: always }), or %s.", s.name, at, correct)
	case full != nil && full.Code == "53300": // too_many_connections
		return tell(exitStoreOther, "%s at %s has no connection left: raise its max_connections above the sum of --max-conns over all instances, or lower --max-conns, or %s.", s.name, at, correct)
	}
	switch exit := complaint(err); exit {
	case exitStoreLogin:
		return tell(exit, "%s at %s refuses the user or the password (%s): %s.", s.name, at, reason(err), correct)
	case exitStoreNoDatabase:
		return tell(exit, "%s at %s has no such database: create it, or %s.", s.name, at, correct)
	case exitStoreOther:
		// The server answered, so the network is not at fault.
	default:
		_, unknown := errors.AsType[*net.DNSError](err)
		timeout, ok := errors.AsType[net.Error](err)
		switch {
		case unknown:
			return tell(exitStoreHostUnknown, "The host name of %s does not resolve here: %s, or DNS.", at, correct)
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist), errors.Is(err, nats.ErrNoServers):
			return tell(exitStoreRefused, "Nothing listens at %s: start %s there, or %s.", at, s.name, correct)
		case errors.Is(err, context.DeadlineExceeded), ok && timeout.Timeout(), errors.Is(err, nats.ErrTimeout):
			return tell(exitStoreSilent, "%s at %s does not answer within %s: check that server and the network between, or %s.", s.name, at, lookTimeout, correct)
		}
	}
	return tell(exitStoreOther, "The server at %s cannot be used as %s (%s): fix that, or %s.", at, s.name, reason(err), correct)
}

// complaint is the exit code for a server's own error, 0 if the error is not from
// the server.
func complaint(err error) int {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch said.Code {
		case "28000", "28P01": // invalid_authorization_specification, invalid_password
			return exitStoreLogin
		case "3D000": // invalid_catalog_name
			return exitStoreNoDatabase
		}
		return exitStoreOther
	}
	if said, ok := errors.AsType[redis.Error](err); ok {
		for prefix, exit := range map[string]int{
			"WRONGPASS": exitStoreLogin, "NOAUTH": exitStoreLogin, "NOPERM": exitStoreLogin,
			"ERR DB index": exitStoreNoDatabase, "ERR invalid DB index": exitStoreNoDatabase,
		} {
			if strings.HasPrefix(said.Error(), prefix) {
				return exit
			}
		}
		return exitStoreOther
	}
	if errors.Is(err, nats.ErrAuthorization) {
		return exitStoreLogin
	}
	return 0
}

// reason returns the driver's message on one line.
func reason(err error) string {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said.Message
	}
	if tried, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = tried.Unwrap() // drops the user name, which the sentence does not need
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
}
