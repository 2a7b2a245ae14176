package httpx

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/fault"
	"stampede/platform/store/redisx"
)

// Unreachable answers for a store that cannot be reached with what to do: what it
// keeps begins the sentence, as in "Alarms". nil, an error that is an answer
// already, and one that has another cause than the way to a store, which nobody
// repairs by coming again, stay as they are. Register asks it about each route's
// errors; it is for handlers that have a better word than a route's.
func Unreachable(what string, err error) error {
	return away(what+" cannot be reached right now. Try again in a moment.", err)
}

// elsewhere is the sentence for routes that have none of their own.
const elsewhere = "What this takes cannot be reached right now. Try again in a moment."

func away(sentence string, err error) error {
	if err == nil || fault.From(err).Kind != fault.Internal || !isAway(err) {
		return err
	}
	return fault.Plain(fault.Unavailable, sentence).After(time.Second).Because(err)
}

// isAway tells whether err says that Postgres, Redis or NATS could not be asked or
// did not answer in time. Whoever gave up himself is told nothing.
func isAway(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok { // refused, cut, or late: a deadline is one as well
		return true
	}
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted, redisx.ErrNoAnswer} {
		if errors.Is(err, cut) {
			return true
		}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) { // nothing was sent
		return true
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		// 08: the connection; 53: no connection, memory or disk is left; 57P: the
		// server stops, starts or has crashed.
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "53") || strings.HasPrefix(said.Code, "57P")
	}
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) ||
		redis.IsReadOnlyError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err)
}
