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

// Takeovers finds the servers that came to be a primary, or started again, with
// data that may lack what was last written. Copies that only ever grow newer can
// go back in time then, and nobody would notice.
//
// A server carries the run id under which its data was last looked after, in a
// key of its own. After a failover the key names the predecessor, whoever asks and
// however long nobody did. A server that comes back after a successor's short reign
// may have its old key as well; whoever saw the successor knows better.
//
// Not safe for concurrent use; several instances may each have one.
type Takeovers struct {
	rdb  redis.UniversalClient
	name string
	seen map[string]string // of the last look: server → run id that its key names
}

// NewTakeovers makes one; name is the beginning of the keys.
func NewTakeovers(rdb redis.UniversalClient, name string) *Takeovers {
	return &Takeovers{rdb: rdb, name: name}
}

// Look asks every primary for its run id and calls do for those that took over
// since the last time do succeeded there, on this or another instance. do may be
// called again for the same takeover. Look is one cheap command per primary where
// nothing has happened.
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
			// A server that is no primary now is not in here any more: when it comes
			// back it took over.
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

// primary is one server to look at.
type primary struct {
	name string // its address; empty where there is one at a time
	key  string // lies on this server
	rdb  redis.Cmdable
}

// primaries lists them. In a cluster a key is chosen for each one that lies on it,
// by trying ever new tags; a primary with so few slots that none of the tags leads
// there is left out.
func (t *Takeovers) primaries(ctx context.Context) ([]primary, error) {
	cluster, ok := t.rdb.(*redis.ClusterClient)
	if !ok {
		return []primary{{key: t.name + "run", rdb: t.rdb}}, nil
	}
	var all atomic.Int32 // they are visited at once
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
			return nil, fmt.Errorf("redisx: who has %s: %w", key, err)
		}
		if addr := node.Options().Addr; !found[addr] {
			found[addr] = true
			list = append(list, primary{name: addr, key: key, rdb: node})
		}
	}
	return list, nil
}

// settle calls do unless it was done under this run, and notes that it was. What
// this instance saw happen is a takeover whatever the key says.
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

// runID is what a server calls its life from start to end.
func runID(ctx context.Context, rdb redis.Cmdable) (string, error) {
	text, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("redisx: ask for the run id: %w", err)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		if run, ok := strings.CutPrefix(line, "run_id:"); ok {
			return run, nil
		}
	}
	return "", errors.New("redisx: the server does not tell its run id")
}
