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

// Unreachable returns the answer for a store that cannot be reached: what names the
// store's content and begins the sentence, as in "Alarms". It returns nil, an error
// that is a fault already, and an error with another cause, which a retry does not
// fix, unchanged. Register applies it to each route's errors; handlers call it for a
// more specific sentence than the route's.
func Unreachable(what fault.Text, err error) error {
	return away(fault.T("{what} cannot be reached right now. Try again in a moment.", "暂时无法访问{what}，请稍后重试。", "what", what), err)
}

// elsewhere is the sentence for routes without a specific one.
var elsewhere = fault.T("A service that this request needs cannot be reached right now. Try again in a moment.",
	"该请求所需的服务暂时无法访问，请稍后重试。")

func away(sentence fault.Text, err error) error {
	if err == nil || fault.From(err).Kind != fault.Internal || !isAway(err) {
		return err
	}
	return fault.Plain(fault.Unavailable, sentence).After(time.Second).Because(err)
}

// isAway reports whether err means that Postgres, Redis or NATS could not be reached,
// did not answer in time or does not accept writes now. A canceled request does not
// count.
func isAway(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok { // refused, closed or timed out: a deadline is a net.Error too
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
		switch said.Code {
		case "25006", // read only: a standby, as in the first seconds of a failover
			"25P03", // the transaction was idle for too long
			"55P03", // a lock was not free in time
			"57014": // the statement took too long
			return true
		}
		// 08: the connection; 53: no connection, memory or disk space is left; 57P:
		// the server stops, starts or has crashed.
		return strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "53") || strings.HasPrefix(said.Code, "57P")
	}
	return redisx.Refused(err) || redis.HasErrorPrefix(err, "EXECABORT") // a transaction with a command that was refused for one of these reasons
}
