package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// probeAfter, probeEvery and probes are the TCP keepalives of both sides: a
	// peer that has vanished is found after 10 s.
	probeAfter = 4 * time.Second
	probeEvery = 2 * time.Second
	probes     = 3
	// unackedFor is how long sent data may stay unacknowledged, which the
	// keepalives do not cover: as long as they allow.
	unackedFor = probeAfter + probes*probeEvery
	// connectWithin bounds a connection to one host, with its login. The kernel
	// alone would try a vanished host for two minutes.
	connectWithin = 10 * time.Second
	// lockWait is how long a statement waits for a lock unless its
	// transaction says otherwise, see InTxWaiting. Transactions hold locks for
	// milliseconds and a Load for a second or two, so the one that holds it for
	// longer is in trouble.
	lockWait = 5 * time.Second
)

// setting is a session setting of Postgres, in Postgres's own unit: milliseconds, for the
// keepalives seconds; a switch is 0 or 1.
type setting struct {
	name  string
	value int
}

// sessionSettings bound what a session can hold and for how long, so that a
// client that vanished or froze holds its locks for some 15 s. They can be
// changed by every role and exist in every version since MinVersion. There is
// no statement_timeout: the reports and Loads of a large shop take as long as
// they take, and each caller's context bounds its own statements.
var sessionSettings = []setting{
	{"lock_timeout", int(lockWait.Milliseconds())},
	// A transaction is idle while its client computes or, in the outbox's relay,
	// publishes: some seconds at most.
	{"idle_in_transaction_session_timeout", 15_000},
	{"tcp_keepalives_idle", int(probeAfter.Seconds())},
	{"tcp_keepalives_interval", int(probeEvery.Seconds())},
	{"tcp_keepalives_count", probes},
	{"tcp_user_timeout", int(unackedFor.Milliseconds())},
	// A statement that runs, or waits for a lock, notices by it that its client
	// has gone.
	{"client_connection_check_interval", 5_000},
	// Off. Postgres compiles a plan that it takes to be expensive, and the limit of a
	// page, a parameter, makes the plans of lists over many partitions look so: half a
	// second of compiling for a millisecond of reading.
	{"jit", 0},
}

// connConfig parses a database URL for a single connection. Like a pool's, the
// URL may contain pool_ parameters, which mean nothing here.
func connConfig(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pg: parse database URL: %w", err)
	}
	return cfg.ConnConfig, nil
}

// Connect opens a single connection without the profile, for a command's few statements.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// bound gives a connection the profile that all of Stampede's connections have:
// its name in pg_stat_activity, the session's bounds, and the bounds of the TCP
// connection. A setting that the URL contains keeps the URL's value; others, if
// given, are set after the profile's.
func bound(cfg *pgx.ConnConfig, name string, others ...setting) {
	cfg.RuntimeParams["application_name"] = name
	cfg.RuntimeParams["timezone"] = "UTC"
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectWithin
	}
	cfg.DialFunc = (&net.Dialer{
		Timeout:         cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes},
		Control:         boundUnacked,
	}).DialContext
	own := make([]setting, 0, len(sessionSettings)+len(others))
	for _, s := range slices.Concat(sessionSettings, others) {
		if _, given := cfg.RuntimeParams[s.name]; !given {
			own = append(own, s)
		}
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error { return apply(ctx, conn, own) }
}

// apply sets a session's settings with one round trip. They are no startup
// parameters because PgBouncer refuses those that it does not know; behind its
// transaction pooling they are set on some server connections only, and the
// transactions that need a bound set it themselves. A setting that the server
// refuses, as an unusual platform may, is left out.
func apply(ctx context.Context, conn *pgconn.PgConn, settings []setting) error {
	all := make([]string, len(settings))
	for i, s := range settings {
		all[i] = fmt.Sprintf("SET %s = %d", s.name, s.value)
	}
	_, err := conn.Exec(ctx, strings.Join(all, ";")).ReadAll()
	if !refusesSetting(err) {
		return err
	}
	for _, one := range all {
		if _, err := conn.Exec(ctx, one).ReadAll(); err != nil && !refusesSetting(err) {
			return err
		}
	}
	return nil
}

// refusesSetting reports whether the server does not know a setting, its value
// or the role's right to it.
func refusesSetting(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "42") || strings.HasPrefix(refused.Code, "0A"))
}
