// Package runs lets operators prove the books by a request: one run at a time,
// whose progress and result every instance answers.
//
// A request commits a row; the instance that gets the lease runs the checks. If
// its process ends, the lease expires and an instance, the restarted one if there is
// no other, begins again: checks only read. A run that was interrupted three times
// has failed, and says so.
package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/store/pg"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/proof/runs/internal/runsdb"
)

const (
	// leaseName is the lease of the instance that runs the checks; leaseLife is how
	// long after its end another one begins again.
	leaseName = "proof"
	leaseLife = 15 * time.Second
	// lookEvery is how often an instance looks for a run that was requested of another
	// one, or lost it.
	lookEvery = 5 * time.Second
	// maxAttempts ends a run that ends its process, or does not fit between two restarts.
	maxAttempts = 3
)

// Statuses of a run.
const (
	StatusRunning  = "running"
	StatusProved   = "proved"
	StatusViolated = "violated" // at least one check found a violation
	StatusFailed   = "failed"   // at least one check could not run, or the run was interrupted too often
)

// Document is what a run found. Its JSON is what the hash is of.
type Document struct {
	Run       int64           `json:"run,string"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   time.Time       `json:"ended_at"`
	Status    string          `json:"status"`
	Outcomes  []proof.Outcome `json:"outcomes"`
	Note      string          `json:"note,omitempty"` // why there are no outcomes
}

// Service runs proofs. Safe for concurrent use.
type Service struct {
	pool   *pgxpool.Pool
	checks []proof.Check
	log    *slog.Logger
	holder string
	kick   chan struct{}
	every  time.Duration // lookEvery except in tests
	life   time.Duration // leaseLife except in tests
}

// New returns a Service that runs these checks.
func New(pool *pgxpool.Pool, checks []proof.Check, log *slog.Logger) *Service {
	return &Service{
		pool: pool, checks: checks, log: log, holder: ids.New().String(), kick: make(chan struct{}, 1), every: lookEvery, life: leaseLife,
	}
}

// Request asks for a run on the server's own behalf, which begins within 5 s of the commit. ok is false while another one
// has not ended.
func Request(ctx context.Context, db pg.DB) (id int64, ok bool, err error) {
	run, err := runsdb.New(db).StartRun(ctx, runsdb.StartRunParams{})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("proof: request a run: %w", err)
	}
	return run.ID, true, nil
}

// Ended returns what a run found, or false while it has not ended.
func Ended(ctx context.Context, db pg.DB, id int64) (d Document, ok bool, err error) {
	r, err := runsdb.New(db).Run(ctx, id)
	if err != nil {
		return d, false, fmt.Errorf("proof: read run %d: %w", id, err)
	}
	if r.Status == StatusRunning {
		return d, false, nil
	}
	if err := json.Unmarshal([]byte(r.Document), &d); err != nil {
		return d, false, fmt.Errorf("proof: decode run %d: %w", id, err)
	}
	return d, true, nil
}

// Workers returns the loop that runs what was requested.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "proof-runs", Run: app.Loop{
		Every: s.every, Kick: s.kick, Do: s.look, Log: s.log, Failed: "proof of the books interrupted, trying again",
	}.Run}}
}

// look runs what was requested, if no other instance does.
func (s *Service) look(ctx context.Context) error {
	if _, err := runsdb.New(s.pool).RunningRun(ctx); errors.Is(err, pgx.ErrNoRows) {
		return nil
	} else if err != nil {
		return fmt.Errorf("proof: look for a run: %w", err)
	}
	_, err := lease.Hold(ctx, s.pool, s.log, leaseName, s.holder, s.life, func(ctx context.Context, _ int64) error { return s.prove(ctx) })
	return err
}

// prove runs the checks of the requested run and stores what they found.
func (s *Service) prove(ctx context.Context) error {
	q := runsdb.New(s.pool)
	run, err := q.RunningRun(ctx)
	if err == nil {
		run, err = q.AttemptRun(ctx, runsdb.AttemptRunParams{ID: run.ID, ChecksTotal: int32(len(s.checks))}) //nolint:gosec // a few dozen
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return fmt.Errorf("proof: begin a run: %w", err)
	}
	if run.Attempts > maxAttempts {
		note := fmt.Sprintf("The run was interrupted %d times, by the end of its process or an outage of Postgres; start another one.", maxAttempts)
		return s.end(ctx, run, Document{Status: StatusFailed, Outcomes: []proof.Outcome{}, Note: note})
	}
	outcomes := proof.Follow(ctx, s.checks, func(done int, next proof.Check) {
		if err := q.NoteProgress(ctx, runsdb.NoteProgressParams{Done: int32(done), Current: next.ID + " " + next.Name, ID: run.ID}); err != nil {
			s.log.DebugContext(ctx, "progress of a proof not noted", "error", err)
		}
	})
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("proof: run %d: %w", run.ID, err) // interrupted: these outcomes are not those of the checks
	}
	return s.end(ctx, run, Document{Status: statusOf(outcomes), Outcomes: outcomes})
}

func statusOf(outcomes []proof.Outcome) string {
	status := StatusProved
	for _, o := range outcomes {
		switch {
		case o.Error != "":
			return StatusFailed
		case len(o.Violations) > 0:
			status = StatusViolated
		}
	}
	return status
}

// end stores a run's document and its hash.
func (s *Service) end(ctx context.Context, run runsdb.PlatformProofRun, d Document) error {
	d.Run, d.StartedAt, d.EndedAt = run.ID, run.StartedAt.UTC(), time.Now().UTC()
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("proof: encode run %d: %w", run.ID, err)
	}
	sum := sha256.Sum256(raw)
	err = runsdb.New(s.pool).EndRun(ctx, runsdb.EndRunParams{Status: d.Status, Document: string(raw), Sha256: hex.EncodeToString(sum[:]), ID: run.ID})
	if err != nil {
		return fmt.Errorf("proof: store run %d: %w", run.ID, err)
	}
	return nil
}
