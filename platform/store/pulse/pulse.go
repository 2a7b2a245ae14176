// Package pulse asks Postgres for all loops of an instance at once whether one of them
// has something to do. At rest that is one statement of a millisecond
// every 200 ms, in place of one or several of each loop.
//
// A loop that has a question makes its round when the answer says so, when it is
// kicked, and, after a round that failed, at its own interval. So nothing waits longer
// than Every for a pulse, whichever instance committed it and whether or not that one
// still runs: signals between loops and instances save this wait, and never carry a
// promise. While a pulse fails, each failure makes every loop do a round of its own:
// a question that cannot be answered, because its table is locked, delays its own
// loop only.
package pulse

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
)

const (
	// Every is the time between two pulses: how late an event may be whose writer woke no relay.
	Every = 200 * time.Millisecond
	// timeout bounds a pulse, which takes a millisecond, and retryEvery is the time between two
	// that fail: together the second within which a change takes effect on every instance.
	timeout    = 500 * time.Millisecond
	retryEvery = 500 * time.Millisecond
)

// Commits is a number for Changed that differs when any transaction that writes has ended: a
// hash of those that a snapshot sees. The heartbeat of rollback alone changes it every two seconds.
const Commits = `SELECT hashtextextended(pg_current_snapshot()::text, 0)`

// Pulse asks the questions of one instance. Create it with New; nil asks nothing, and
// its loops run at their own interval.
type Pulse struct {
	pool  *pgxpool.Pool
	log   *slog.Logger
	every time.Duration // Every, except in tests
	beats *prometheus.CounterVec

	mu        sync.Mutex
	questions []*question
	answered  time.Time // the beginning of the last pulse that Postgres answered
}

// question is what one loop asks.
type question struct {
	loop, sql string
	due       chan struct{} // holds one; its loop receives
	// changes means that the loop waits for another answer than the last one; otherwise for one that is not 0.
	changes bool
	last    int64
	known   bool // last is an answer
}

// New returns a pulse without questions. metrics may be nil.
func New(pool *pgxpool.Pool, log *slog.Logger, metrics prometheus.Registerer) *Pulse {
	p := &Pulse{pool: pool, log: log, every: Every, beats: promauto.With(metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_pulses_total",
		Help: "Statements that ask Postgres what is due for all loops of this instance, by result: answered, failed. After a failed one each loop asks itself.",
	}, []string{"result"})}
	p.beats.WithLabelValues("failed") // shown as 0
	return p
}

// Due returns what kicks the loop of that name in each pulse in which condition is true: SQL
// of type boolean, which must be as cheap as one look into an index. So it compares times with
// statement_timestamp(): for clock_timestamp(), which is volatile, Postgres reads every row.
// A condition with that is a programming error, which panics.
func (p *Pulse) Due(loop, condition string) <-chan struct{} {
	return p.add(loop, `(`+condition+`)::int`, false)
}

// Changed returns what kicks the loop of that name in the first pulse and in each whose number
// is not that of the pulse before: SQL of a whole number, as cheap as one row by its key.
func (p *Pulse) Changed(loop, number string) <-chan struct{} { return p.add(loop, number, true) }

// add returns the channel of a loop's question. A worker that starts again gets its old one;
// two loops with the same question each have their own, because one receives a kick alone.
func (p *Pulse) add(loop, sql string, changes bool) <-chan struct{} {
	if p == nil {
		return nil
	}
	if strings.Contains(sql, "clock_timestamp") {
		panic("pulse: the condition of " + loop + " uses no index, because of clock_timestamp(): " + sql)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.questions {
		if q.loop == loop && q.sql == sql {
			return q.due
		}
	}
	q := &question{loop: loop, sql: sql, due: make(chan struct{}, 1), changes: changes}
	p.questions = append(p.questions, q)
	return q.due
}

// Worker asks until its context ends.
func (p *Pulse) Worker() app.Worker {
	return app.Worker{Name: "pulse", Run: app.Loop{
		Every: p.every, Retry: retryEvery, Do: p.ask, Log: p.log, Failed: "Postgres was not asked what is due, each loop asks itself",
	}.Run}
}

// Ping returns nil if Postgres has answered within the time of two pulses, and else asks it.
func (p *Pulse) Ping(ctx context.Context) error {
	p.mu.Lock()
	fresh := time.Since(p.answered) < 2*p.every
	p.mu.Unlock()
	if fresh {
		return nil
	}
	return p.pool.Ping(ctx) //nolint:wrapcheck // the caller says what it is about
}

// ask makes one pulse. Only Worker's goroutine calls it, which owns the answers.
func (p *Pulse) ask(ctx context.Context) error {
	p.mu.Lock()
	questions := p.questions // only ever grows, behind these
	p.mu.Unlock()
	if len(questions) == 0 {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var sql strings.Builder
	for i, q := range questions {
		fmt.Fprintf(&sql, "%s coalesce((%s)::bigint, 0)", map[bool]string{true: "SELECT ARRAY[", false: ","}[i == 0], q.sql)
	}
	sql.WriteByte(']')
	var answers []int64
	err := p.pool.QueryRow(ctx, sql.String()).Scan(&answers)
	for i, q := range questions {
		switch {
		case err != nil:
			q.known = false // what changed meanwhile is not missed
		case q.changes && q.known && answers[i] == q.last, !q.changes && answers[i] == 0:
			continue
		default:
			q.last, q.known = answers[i], true
		}
		app.Kick(q.due)
	}
	if err != nil {
		p.beats.WithLabelValues("failed").Inc()
		return fmt.Errorf("pulse: %w", err)
	}
	p.beats.WithLabelValues("answered").Inc()
	p.mu.Lock()
	p.answered = began
	p.mu.Unlock()
	return nil
}
