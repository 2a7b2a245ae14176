// Package instances knows which instances serve the database, and whether they fit together.
//
// Each instance stores a row every 5 s: a fingerprint of its signing key and of every key
// that it accepts, and the identities of its Redis and of its NATS. Settings that differ
// make no call fail: logins are refused by a share of the instances, each Redis sells the
// same units until the other's load fences it, and pushes reach half of the shoppers. So
// an instance that does not fit those that run refuses to start, and a difference that
// appears later is an alarm.
//
// A row counts for 15 s after its last report. One that is older is of an instance that
// was killed, frozen, or cut off from Postgres.
package instances

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/instances/internal/instancesdb"
)

const (
	// reportEvery is how soon a difference is seen; each report costs a commit.
	reportEvery = 5 * time.Second
	// runsFor is how long a row counts: an instance that was killed is missing after
	// three reports.
	runsFor = 3 * reportEvery
	// differFor is how long running instances must differ before the alarm: longer than one
	// that is refused waits for the others.
	differFor = runsFor + 2*reportEvery
	// askTimeout bounds one question to a store.
	askTimeout = 2 * time.Second
	// lookEvery is how often a start that waits looks again.
	lookEvery = 500 * time.Millisecond
	// joinLock names the advisory lock of those that join: "instance" in ASCII.
	joinLock = 0x696e7374616e6365
	// exitDiffers is the exit code of a start that does not fit; it follows that of a Redis
	// which belongs to another database.
	exitDiffers = 38
	// redisKey holds the identity of a Redis: a random word that its first instance wrote. It
	// is no data of ours that a rollback of Postgres makes wrong.
	redisKey = "instances"
)

// Differ is raised while running instances do not fit together.
var Differ = alarm.Define("instances-differ", alarm.Critical,
	fault.T("Instances that serve this database differ in their signing key, Redis or NATS: a share of them refuses the logins of the others, sells from another Redis, or carries half of the pushes.",
		"为同一数据库服务的实例，签名密钥、Redis 或 NATS 不一致：部分实例会拒绝其他实例签发的登录，使用另一个 Redis 出售商品，或只传递一半的推送。"),
	fault.T("The detail names the instances. Stop the one that differs, and start it with the --signing-key, --redis-url and --nats-url of the others.",
		"详情列出了相关实例。请停止不一致的实例，用与其他实例相同的 --signing-key、--redis-url 和 --nats-url 重新启动。"))

// Config describes this instance.
type Config struct {
	Name        string // for the operator: its address and its machine
	Key         []byte // that it signs with
	Previous    [][]byte
	Clients     int  // connections that it takes at most
	Connections int  // to Postgres at most
	Alone       bool // because of the instance lock no other runs, so that it keeps no row
}

// Deps are what the registry works with.
type Deps struct {
	DB    *pgxpool.Pool
	Redis redis.UniversalClient
	NATS  func(ctx context.Context) (identity string, err error)
	Log   *slog.Logger
}

// row is what an instance reported.
type row = instancesdb.PlatformInstance

// Registry keeps this instance's row. Safe for concurrent use.
type Registry struct {
	deps  Deps
	alone bool
	mine  row // of the worker alone, once it runs
	found atomic.Pointer[[]alarm.Finding]
}

// differsError refuses an instance that does not fit the others.
type differsError []alarm.Finding

func (e differsError) Error() string {
	said := make([]string, len(e))
	for i, f := range e {
		said[i] = f.Detail
	}
	return "this instance does not fit those that serve this database: " + strings.Join(said, "; ") +
		": give each the same --signing-key, --redis-url and --nats-url, or stop the others first"
}

// ExitCode returns the process's exit code.
func (differsError) ExitCode() int { return exitDiffers }

// Join reports this instance until a stops. If one that runs differs from it, it refuses with
// exit code 38: after 5 s, for only a report whose questions are younger than this start says
// that the other has not ended, and what its Redis is now. The row of one that was killed
// delays it by 15 s. A Redis or NATS that a part of the others shares with it is no reason:
// the alarm is there already, and this one may be the repair.
func Join(ctx context.Context, a *app.App, cfg Config, deps Deps) (*Registry, error) {
	return join(ctx, a, cfg, deps, reportEvery)
}

func join(ctx context.Context, a *app.App, cfg Config, deps Deps, every time.Duration) (*Registry, error) {
	r := &Registry{deps: deps, alone: cfg.Alone, mine: row{
		Instance: ids.New(), Name: cfg.Name, Signs: fingerprint(cfg.Key), Accepts: []string{fingerprint(cfg.Key)},
		Clients: int64(cfg.Clients), Connections: int64(cfg.Connections),
	}}
	for _, key := range cfg.Previous {
		r.mine.Accepts = append(r.mine.Accepts, fingerprint(key))
	}
	if cfg.Alone {
		return r, nil
	}
	a.OnStop("instance's row", func(ctx context.Context) error {
		if err := instancesdb.New(deps.DB).Leave(ctx, instancesdb.LeaveParams{Instance: r.mine.Instance, Within: runsFor}); err != nil {
			return fmt.Errorf("instances: delete this instance's row: %w", err)
		}
		return nil
	})
	if err := r.fit(ctx); err != nil {
		return nil, err
	}
	a.Go("instances", app.Worker{Name: "instances", Run: app.Loop{
		Every: every, Do: r.compare, Log: deps.Log, Failed: "the other instances do not see this one, retrying",
	}.Run})
	return r, nil
}

// fit returns nil when this instance has a row beside those that it fits. One that is refused
// has none: it must not keep others from starting.
func (r *Registry) fit(ctx context.Context) error {
	var began time.Time
	for {
		if err := r.ask(ctx); err != nil {
			return err
		}
		if began.IsZero() {
			began = r.mine.At
		}
		var all, fresh []alarm.Finding
		if err := pg.InTx(ctx, r.deps.DB, func(tx pgx.Tx) error {
			q := instancesdb.New(tx)
			if err := q.LockJoining(ctx, joinLock); err != nil { // of two at once, one is first
				return err
			}
			running, err := q.Running(ctx, runsFor)
			if err != nil {
				return err
			}
			all = r.against(running)
			fresh = r.against(slices.DeleteFunc(running, func(i row) bool { return !i.At.After(began) }))
			if len(all) > 0 {
				return nil
			}
			return q.Report(ctx, instancesdb.ReportParams(r.mine))
		}); err != nil {
			return fmt.Errorf("instances: join those that run: %w", err)
		}
		switch {
		case len(all) == 0:
			return nil
		case len(fresh) > 0:
			return differsError(fresh)
		}
		r.deps.Log.InfoContext(ctx, "waiting for a report of an instance that differs, or its end", "difference", all[0].Detail)
		if err := app.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// against is what keeps this instance from running beside others.
func (r *Registry) against(running []row) (found []alarm.Finding) {
	own := r.mine
	shares := func(of func(row) string) bool {
		return slices.ContainsFunc(running, func(i row) bool { return of(i) == of(own) })
	}
	if shares(redisOf) {
		own.Redis = ""
	}
	if shares(natsOf) {
		own.Nats = ""
	}
	for _, other := range running {
		found = append(found, differences([]row{other, own})...)
	}
	return found
}

// fingerprint names a signing key without disclosing anything of it.
func fingerprint(key []byte) string { return hex.EncodeToString(auth.Derive(key, "fingerprint")[:16]) }

// ask asks Redis and NATS who they are. One that does not answer is not compared: the outage
// has alarms of its own. The row is as old as the questions.
func (r *Registry) ask(ctx context.Context) (err error) {
	if r.mine.At, err = pg.Now(ctx, r.deps.DB); err != nil {
		return fmt.Errorf("instances: read the time: %w", err)
	}
	ask := func(store string, identity func(context.Context) (string, error)) string {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		id, err := identity(ctx)
		if err != nil {
			r.deps.Log.DebugContext(ctx, "the others cannot compare a store of this instance", "store", store, "error", err)
			return ""
		}
		return id
	}
	r.mine.Redis, r.mine.Nats = ask("Redis", r.redisIdentity), ask("NATS", r.deps.NATS)
	return nil
}

// compare stores this instance's row, and what those that run differ in.
func (r *Registry) compare(ctx context.Context) (err error) {
	var found []alarm.Finding
	defer func() { r.found.Store(&found) }() // nothing after a failure: it was seen before it
	if err := r.ask(ctx); err != nil {
		return err
	}
	q := instancesdb.New(r.deps.DB)
	if err := q.Report(ctx, instancesdb.ReportParams(r.mine)); err != nil {
		return fmt.Errorf("instances: store this instance's row: %w", err)
	}
	running, err := q.Running(ctx, runsFor)
	if err != nil {
		return fmt.Errorf("instances: read the running ones: %w", err)
	}
	found = differences(running)
	return nil
}

// redisIdentity is a word in Redis, which is written where it is missing, and the id of the
// history that this primary writes: after a failover a primary that was left behind has the
// same word and another history. A server that hides its history has only the word.
func (r *Registry) redisIdentity(ctx context.Context) (string, error) {
	word := ids.New().String()
	old, err := r.deps.Redis.SetArgs(ctx, redisKey, word, redis.SetArgs{Mode: "NX", Get: true}).Result()
	switch {
	case err == nil:
		word = old
	case !errors.Is(err, redis.Nil): // it is full, or reads only
		if word, err = r.deps.Redis.Get(ctx, redisKey).Result(); err != nil {
			return "", err
		}
	}
	var node redis.Cmdable = r.deps.Redis
	if cluster, many := r.deps.Redis.(*redis.ClusterClient); many {
		if node, err = cluster.MasterForKey(ctx, redisKey); err != nil {
			return "", err
		}
	}
	info, err := node.Info(ctx, "replication").Result()
	if _, refused := errors.AsType[redis.Error](err); err != nil && !refused { // as some providers do
		return "", err
	}
	_, rest, _ := strings.Cut(info, "master_replid:")
	history, _, _ := strings.Cut(rest, "\r\n")
	return word + " " + history, nil
}

// Probe finds what running instances differ in.
func (r *Registry) Probe() alarm.Probe {
	return alarm.Probe{Alarm: Differ, Every: reportEvery, For: differFor, Look: func(context.Context) ([]alarm.Finding, error) {
		if found := r.found.Load(); found != nil {
			return *found, nil
		}
		return nil, nil
	}}
}

// differences are the settings in which running instances, in the order of their names, do
// not fit together. Each of them finds the same.
func differences(running []row) []alarm.Finding {
	var found []alarm.Finding
	signers := group(running, func(i row) string { return i.Signs })
	for _, key := range slices.Sorted(maps.Keys(signers)) {
		var refusing []string
		for _, i := range running {
			if !slices.Contains(i.Accepts, key) {
				refusing = append(refusing, i.Name)
			}
		}
		if len(refusing) > 0 {
			found = append(found, alarm.Finding{Subject: "signing key", Detail: fmt.Sprintf("the logins that %s signed are refused by %s", list(signers[key]), list(refusing))})
			break // the others of the same fault add nothing
		}
	}
	for _, store := range []struct {
		name string
		of   func(row) string
	}{
		{"Redis", redisOf},
		{"NATS", natsOf},
	} {
		users := group(running, store.of)
		if len(users) < 2 {
			continue
		}
		sides := make([]string, 0, len(users))
		for _, id := range slices.Sorted(maps.Keys(users)) {
			sides = append(sides, list(users[id]))
		}
		found = append(found, alarm.Finding{Subject: store.name, Detail: store.name + " is not the same server for " + strings.Join(sides, " and for ")})
	}
	return found
}

func redisOf(i row) string { return i.Redis }

func natsOf(i row) string { return i.Nats }

// group are the names of the instances by what they have; those of which it is not known
// are left out.
func group(running []row, of func(row) string) map[string][]string {
	by := map[string][]string{}
	for _, i := range running {
		if of(i) != "" {
			by[of(i)] = append(by[of(i)], i.Name)
		}
	}
	return by
}

// list names instances in a sentence.
func list(names []string) string { return strings.Join(names, ", ") }

// Shop is what the running instances have in sum.
type Shop struct {
	Instances   int
	Clients     int64 // connections that they take at most
	Connections int64 // to Postgres at most
}

// Sum reads the running instances.
func (r *Registry) Sum(ctx context.Context) (Shop, error) {
	if r.alone {
		return Shop{Instances: 1, Clients: r.mine.Clients, Connections: r.mine.Connections}, nil
	}
	running, err := instancesdb.New(r.deps.DB).Running(ctx, runsFor)
	if err != nil {
		return Shop{}, fmt.Errorf("instances: read the running ones: %w", err)
	}
	sum := Shop{Instances: len(running)}
	for _, i := range running {
		sum.Clients += i.Clients
		sum.Connections += i.Connections
	}
	return sum, nil
}
