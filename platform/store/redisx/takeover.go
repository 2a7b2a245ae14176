package redisx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Takeovers finds servers that became a primary, or restarted, with data that
// may lack the last writes. Copies that are only ever updated to newer versions
// can then go back in time unnoticed.
//
// A key on each server contains the run id under which its data was last
// settled. After a failover the key names the predecessor, no matter which
// instance checks and how late. A server that returns as primary after a
// short-lived successor may still have its old key; an instance that saw the
// successor detects that as well.
//
// Not safe for concurrent use; several instances may each have one.
type Takeovers struct {
	rdb  redis.UniversalClient
	name string
	seen map[string]string // from the last check: server → run id that its key names
}

// NewTakeovers returns a Takeovers; name is the prefix of its keys.
func NewTakeovers(rdb redis.UniversalClient, name string) *Takeovers {
	return &Takeovers{rdb: rdb, name: name}
}

// Look queries every primary for its run id and calls do for those that took
// over since do last succeeded there, on this or another instance. do may be
// called again for the same takeover. Without a takeover Look costs one cheap
// command per primary.
func (t *Takeovers) Look(ctx context.Context, do func(ctx context.Context, primary redis.Cmdable) error) error {
	list, err := t.primaries(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]string, len(list))
	var failed error
	for _, p := range list {
		run, err := runID(ctx, p.rdb)
		before, known := t.seen[p.name]
		if err == nil && run != before {
			err = t.settle(ctx, p, run, t.seen != nil, do)
		}
		if err == nil {
			// A server that is not a primary now is dropped here: if it returns
			// as primary, it took over.
			seen[p.name] = run
			continue
		}
		failed = errors.Join(failed, err)
		if known {
			seen[p.name] = before
		}
	}
	t.seen = seen
	return failed
}

// primary is one server to check.
type primary struct {
	name string // its address; empty if there is only one at a time
	key  string // stored on this server
	rdb  redis.Cmdable
}

// primaries lists the primaries. In a cluster it chooses for each a key that is
// stored on it, by trying one hash tag after another; a primary with so few
// slots that no tag leads to it is left out.
func (t *Takeovers) primaries(ctx context.Context) ([]primary, error) {
	cluster, ok := t.rdb.(*redis.ClusterClient)
	if !ok {
		return []primary{{key: t.name + "run", rdb: t.rdb}}, nil
	}
	var all atomic.Int32 // they are visited concurrently
	err := cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { all.Add(1); return nil })
	if err != nil {
		return nil, fmt.Errorf("redisx: list the primaries: %w", err)
	}
	const tags = 4096
	found := make(map[string]bool)
	var list []primary
	for i := 0; i < tags && len(list) < int(all.Load()); i++ {
		key := t.name + "run:{" + strconv.Itoa(i) + "}"
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("redisx: find the primary of %s: %w", key, err)
		}
		if addr := node.Options().Addr; !found[addr] {
			found[addr] = true
			list = append(list, primary{name: addr, key: key, rdb: node})
		}
	}
	return list, nil
}

// settle calls do unless it was done under this run id, and records it. A
// takeover that this instance saw counts whatever the key says.
func (t *Takeovers) settle(ctx context.Context, p primary, run string, saw bool, do func(ctx context.Context, primary redis.Cmdable) error) error {
	settled, err := p.rdb.Get(ctx, p.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("redisx: read %s: %w", p.key, err)
	}
	if settled == run && !saw {
		return nil
	}
	if err := do(ctx, p.rdb); err != nil {
		return err
	}
	if err := p.rdb.Set(ctx, p.key, run, 0).Err(); err != nil {
		return fmt.Errorf("redisx: write %s: %w", p.key, err)
	}
	return nil
}

// runID is a server's id from its start to its end.
func runID(ctx context.Context, rdb redis.Cmdable) (string, error) {
	text, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("redisx: query the run id: %w", err)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if run, ok := strings.CutPrefix(line, "run_id:"); ok {
			return run, nil
		}
	}
	return "", errors.New("redisx: the server does not report its run id")
}
