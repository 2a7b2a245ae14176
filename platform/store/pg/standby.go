package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
)

// Standby does expensive reads, lists and exports and reports, on a hot standby of the
// database with streaming replication, to leave the primary's processors to the sale. Nil
// is none: the primary does every read. Safe for concurrent use.
//
// # What a read sees
//
// Every commit of before it began, of whichever instance: [Read] first asks the primary for
// its position in the write-ahead log, and reads from the standby once that has replayed
// it. So an operator finds in a list what they or another did a moment ago, and no list
// needs a rule of its own; it costs the primary a statement of some microseconds. It needs
// no clock, does not take an idle primary for an old standby, and takes a standby that
// receives nothing any more for what it is: that has replayed all that it received, and
// not the primary's next commit. The timelines are compared too: after a failover a
// standby of the lost primary may be ahead of the new one.
//
// # When the primary answers
//
// When the standby is away, frozen, promoted or further behind than standbyLag; and, again
// from the start, every read that fails on it, whether the standby stopped in the middle or
// canceled it because it kept the replay waiting (a recovery conflict). A standby that
// failed is asked for no read before a probe has found it well.
type Standby struct {
	pool, primary *pgxpool.Pool
	log           *slog.Logger
	reads         *prometheus.CounterVec

	mu   sync.Mutex
	away error // why it is asked for nothing; nil while it is
}

const (
	// standbyConns is the pool's size: as many as read lists of orders at a time, and the
	// exports, reports and other lists.
	standbyConns = 12
	// standbyLag is how far behind the standby may be: how long a read waits for it to replay
	// what was committed before, and, as it bounds the questions too, for one that is frozen.
	// In one data center the replay is some milliseconds behind, so that more has a reason
	// that lasts; and an operator does not mind half a second.
	standbyLag = 500 * time.Millisecond
	// standbyPoll is the time between two looks at a standby that is behind.
	standbyPoll = 10 * time.Millisecond
	// standbyReads is how long a read may take where its caller sets no bound: the longest
	// report's some seconds. Where the caller does, the primary gets the second half.
	standbyReads = 5 * time.Second
	// standbyProbe is the time between two probes.
	standbyProbe = 2 * time.Second
	// standbyStart is how long a start waits for the standby, which has the migrations to replay.
	standbyStart = 3 * time.Second
)

// ErrNoStandby means that a server is no standby of the primary, and will never be.
var ErrNoStandby = errors.New("--database-read-url leads to another server or database than --database-url: name a standby " +
	"with streaming replication of the same database, or leave the setting out")

var (
	errNone     = errors.New("there is none")
	errPrimary  = errors.New("the primary does not tell its position")
	errPromoted = errors.New("it is no standby: it was promoted, or it is the primary")
	errTimeline = errors.New("it follows another timeline than the primary's; after a failover it has the new one with its next restartpoint")
	errBehind   = fmt.Errorf("it is more than %s behind the primary", standbyLag)
)

const (
	// identity is the same on a primary and on its standbys alone.
	identity = `SELECT system_identifier || ' ' || oid FROM pg_control_system(), pg_database WHERE datname = current_database()`
	// position is how far the primary's log is flushed, which every acknowledged commit is, and its timeline.
	position = `SELECT pg_current_wal_flush_lsn()::text, left(pg_walfile_name(pg_current_wal_flush_lsn()), 8)`
	// reached looks whether a standby has replayed to a position. A restartpoint tells the timeline, or what was written since.
	reached = `SELECT pg_is_in_recovery(), coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false),
		upper(lpad(to_hex(greatest(timeline_id, min_recovery_end_timeline)), 8, '0')) = $2::text
		FROM pg_control_checkpoint(), pg_control_recovery()`
)

// OpenStandby opens the standby of the primary, none for an empty URL, and watches it while
// a runs. One that does not answer is used when it does; another database is ErrNoStandby.
func OpenStandby(ctx context.Context, a *app.App, url string, primary *pgxpool.Pool, log *slog.Logger, metrics prometheus.Registerer) (*Standby, error) {
	s := &Standby{primary: primary, log: log, away: errNone, reads: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_standby_reads_total",
		Help: "Lists, batches of exports and reports that a standby may answer, by the server that did: standby, primary.",
	}, []string{"server"})}
	s.reads.WithLabelValues("primary") // shown as 0
	if url == "" {
		return s, nil
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pg: parse the standby's URL: %w", err)
	}
	var ours string
	if err := primary.QueryRow(ctx, identity).Scan(&ours); err != nil {
		return nil, fmt.Errorf("pg: identify the primary: %w", err)
	}
	cfg.MaxConns = standbyConns
	cfg.ConnConfig.ConnectTimeout = standbyStart
	bound(cfg.ConnConfig, "stampede reads", setting{"default_transaction_read_only", 1})
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, standbyStart)
		defer cancel()
		var theirs string
		if err := conn.QueryRow(ctx, identity).Scan(&theirs); err != nil {
			return fmt.Errorf("identify it: %w", err)
		}
		if theirs != ours {
			return ErrNoStandby
		}
		return nil
	}
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg); err != nil {
		return nil, fmt.Errorf("pg: open pool for the standby: %w", err)
	}
	a.OnStop("pool standby", func(ctx context.Context) error { return Close(ctx, s.pool) })
	conn, err := s.upToDate(ctx, primary, standbyStart)
	if errors.Is(err, ErrNoStandby) {
		return nil, ErrNoStandby
	}
	s.found(ctx, conn, err)
	a.Go("standby watch", app.Worker{Name: "standby", Run: app.Loop{
		Every: standbyProbe, Do: func(ctx context.Context) error { _ = s.Check(ctx); return nil }, // found logs it
	}.Run})
	return s, nil
}

// Read does a read on the standby, or on the primary, which is the caller's own pool. It
// may call read twice, the second time with the primary. read makes one statement at a time.
func Read[T any](ctx context.Context, s *Standby, primary *pgxpool.Pool, read func(ctx context.Context, db DB) (T, error)) (T, error) {
	if s == nil {
		return read(ctx, primary)
	}
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away == nil {
		var found T
		err := s.read(ctx, primary, func(ctx context.Context, db DB) (err error) {
			found, err = read(ctx, db)
			return err
		})
		if err == nil {
			s.reads.WithLabelValues("standby").Inc()
			return found, nil
		}
		if canceled, ok := errors.AsType[*pgconn.PgError](err); ok {
			s.log.InfoContext(ctx, "read failed on the standby, the primary does it", "error", canceled)
		}
	}
	s.reads.WithLabelValues("primary").Inc()
	return read(ctx, primary)
}

func (s *Standby) read(ctx context.Context, primary *pgxpool.Pool, read func(ctx context.Context, db DB) error) error {
	most := standbyReads
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2)
	}
	reading, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := s.upToDate(reading, primary, standbyLag)
	if err != nil {
		if ctx.Err() == nil {
			s.found(ctx, nil, err)
		}
		return err
	}
	defer conn.Release()
	err = read(reading, conn)
	// The end of its time closes a connection; a canceled or refused read leaves it open.
	if err != nil && conn.Conn().IsClosed() && ctx.Err() == nil {
		s.found(ctx, nil, err)
	}
	return err
}

// upToDate returns a connection to the standby that has replayed what is committed now.
func (s *Standby) upToDate(ctx context.Context, primary *pgxpool.Pool, within time.Duration) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var at, timeline string
	if err := primary.QueryRow(ctx, position).Scan(&at, &timeline); err != nil {
		return nil, fmt.Errorf("%w: %w", errPrimary, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the standby: %w", err)
	}
	for {
		var follows, replayed, same bool
		err = conn.QueryRow(ctx, reached, at, timeline).Scan(&follows, &replayed, &same)
		switch {
		case err != nil:
			err = fmt.Errorf("ask the standby for its position: %w", err)
		case !follows:
			err = errPromoted
		case !same:
			err = errTimeline
		case replayed:
			return conn, nil
		case app.Sleep(ctx, standbyPoll) == nil:
			continue
		default:
			err = errBehind
		}
		conn.Release()
		return nil, err
	}
}

// Given reports whether a standby is set up.
func (s *Standby) Given() bool { return s != nil && s.pool != nil }

// Check probes the standby and returns why the primary reads for it; nil while it need not.
func (s *Standby) Check(ctx context.Context) error {
	conn, err := s.upToDate(ctx, s.primary, standbyLag)
	if ctx.Err() == nil {
		s.found(ctx, conn, err)
	}
	return err
}

// found notes how the standby is, gives conn back, and says so once. What keeps the primary from answering, as a pool that
// is busy, says nothing about the standby.
func (s *Standby) found(ctx context.Context, conn *pgxpool.Conn, err error) {
	if errors.Is(err, errPrimary) {
		return
	}
	if conn != nil {
		conn.Release()
	}
	s.mu.Lock()
	before := s.away
	s.away = err
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.WarnContext(ctx, "standby not usable, the primary does its reads", "error", err)
	case err == nil && before != nil:
		s.log.InfoContext(ctx, "standby reads again")
	}
}
