package alarm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/disk"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/redisx"
	"stampede/platform/watch/proof"
)

// Parts are the stores and streams of an instance that its Probes check.
type Parts struct {
	// Listen is the instance's address; with the host name it identifies the
	// unhealthy one of several instances.
	Listen string
	Bus    *bus.Bus
	// Postgres fails if it cannot be reached; nil pings the pool.
	Postgres func(ctx context.Context) error
	// Redis is redisx.Writable.
	Redis func(ctx context.Context) error
	// StreamDir is where the embedded NATS server keeps its streams, "" for an
	// external NATS; StreamBytes is their maximum size.
	StreamDir   string
	StreamBytes int64
}

const (
	// pingEvery is half the shortest time after which an unhealthy embedded NATS
	// server is restarted, so that no restart is missed.
	pingEvery = 500 * time.Millisecond
	// pingTimeout: a part that answers more slowly cannot serve a rush.
	pingTimeout = 2 * time.Second
	// unwellFor is how long NATS may be unhealthy without an alarm: the time of a
	// reconnection.
	unwellFor = pingEvery
	// awayFor is how long Postgres or Redis may be unreachable without an alarm: one
	// check lost in a busy network. A longer outage affects a rush, which has
	// thousands of requests a second, even if it heals without action.
	awayFor = time.Second
	// diskEvery is how soon a disk that fills up is noticed.
	diskEvery = 10 * time.Second
)

// Probes returns the probes of one instance's parts, of its outbox and of its
// connection to Postgres, whose alarm is recorded when Postgres is back.
func Probes(pool *pgxpool.Pool, p Parts) []Probe {
	if p.Postgres == nil {
		p.Postgres = pool.Ping
	}
	p.Redis = shared(p.Redis)
	instance := Instance(p.Listen)
	probes := []Probe{
		ping(BusUnhealthy, instance, unwellFor, but(bus.ErrFull, p.Bus.Healthy)),
		ping(GrantsFull, "stream of grants", unwellFor, only(bus.ErrFull, p.Bus.Healthy)),
		ping(RedisUnreachable, instance, awayFor, but(redisx.ErrRefuses, p.Redis)),
		ping(RedisRefuses, instance, awayFor, only(redisx.ErrRefuses, p.Redis)),
		ping(PostgresUnreachable, instance, awayFor, p.Postgres),
		OutboxProbe(pool),
	}
	if p.StreamDir != "" {
		probes = append(probes, diskSpace(p.StreamDir, p.StreamBytes))
	}
	return probes
}

// Instance names an instance for the operator, by its address and its machine.
func Instance(listen string) string {
	if host, err := os.Hostname(); err == nil {
		return "instance " + listen + " on " + host
	}
	return "instance " + listen
}

// shared is a look whose result two probes use that ask at the same time.
func shared(look func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex
	var last error
	var began time.Time
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(began) > pingEvery/2 {
			began, last = time.Now(), look(ctx)
		}
		return last
	}
}

// only fails as look does with one error, which has an alarm of its own.
func only(one error, look func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := look(ctx); errors.Is(err, one) {
			return err
		}
		return nil
	}
}

// but fails as look does with every other error.
func but(one error, look func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := look(ctx); !errors.Is(err, one) {
			return err
		}
		return nil
	}
}

// ping is a probe of a part that answers or fails.
func ping(d *Definition, subject string, lasts time.Duration, ask func(ctx context.Context) error) Probe {
	return Probe{Alarm: d, Every: pingEvery, For: lasts, Look: func(ctx context.Context) ([]Finding, error) {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		if err := ask(ctx); err != nil {
			return []Finding{{subject, err.Error()}}, nil
		}
		return nil, nil
	}}
}

// diskSpace is a probe of the disk under dir: the files in dir may grow to most
// bytes in total, and the difference must be free.
func diskSpace(dir string, most int64) Probe {
	return Probe{Alarm: DiskNearlyFull, Every: diskEvery, Look: func(context.Context) ([]Finding, error) {
		free, err := disk.Free(dir)
		if err != nil {
			return nil, fmt.Errorf("alarm: %w", err)
		}
		used, err := bytesIn(dir)
		if err != nil {
			return nil, fmt.Errorf("alarm: size of %s: %w", dir, err)
		}
		if free >= most-used {
			return nil, nil
		}
		return []Finding{{"disk of " + dir, fmt.Sprintf("%d MiB are free, the streams may still grow by %d MiB.", free>>20, (most-used)>>20)}}, nil
	}}
}

// bytesIn sums the sizes of the files below dir; files deleted meanwhile count as 0.
func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}

// SampleEvery is how often a running server's books are sampled: a violation is
// reported within a minute, and reading the items on sale takes a fraction of a
// second.
const SampleEvery = time.Minute

// Sampled is a probe that runs checks of the books: every `every`, on one instance.
// A check confirms its findings with a second read, so one finding is enough. A
// check that fails to run is logged and does not prevent the others.
func Sampled(every time.Duration, checks []proof.Check) Probe {
	return Probe{Alarm: BooksBroken, Every: every, Shared: true, Look: func(ctx context.Context) ([]Finding, error) {
		var found []Finding
		var failed error
		for _, o := range proof.Run(ctx, checks) {
			for _, v := range o.Violations {
				found = append(found, Finding{o.ID + " " + v.Subject, o.Name + ": " + v.Detail})
			}
			if o.Error != "" {
				failed = fmt.Errorf("alarm: check %s (%s) could not run: %s", o.ID, o.Name, o.Error)
			}
		}
		return found, failed
	}}
}

const (
	// behindAfter is how long events must have waited, in every check, before the
	// alarm. Events are sent within milliseconds; a restart of NATS or of this
	// process delays them for seconds. The time counts from the first check and not
	// from the creation of the event: an event that a recall unmarks, or that a stop
	// has left over, is old but has not waited.
	behindAfter = time.Minute
	// behindEvery is how often the oldest event is read, by its index, and the age
	// from which on an event counts as late rather than in transit.
	behindEvery = 10 * time.Second
)

// OutboxProbe finds an outbox whose events have not been sent for a minute. Events
// that the bus refuses have a separate alarm as well.
func OutboxProbe(pool *pgxpool.Pool) Probe {
	return Probe{Alarm: OutboxBehind, Every: behindEvery, For: behindAfter, Shared: true, Look: func(ctx context.Context) ([]Finding, error) {
		subject, age, err := outbox.Oldest(ctx, pool)
		if err != nil || age < behindEvery {
			return nil, err
		}
		return []Finding{{Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was made %.0f s ago.", subject, age.Seconds())}}, nil
	}}
}
