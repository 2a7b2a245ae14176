package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Check refuses a Redis that is too old and calls warn for each setting that
// would lose grants in a crash or when memory is full. In a cluster it checks
// every node, including replicas, because each may become a primary; a node
// that does not answer causes a warning, because the others can sell. A managed
// Redis may hide its settings; unreadable ones cause no warning.
func Check(ctx context.Context, rdb redis.UniversalClient, warn func(sentence string)) error {
	warnings, err := checkAll(ctx, rdb)
	for _, w := range warnings {
		warn(w)
	}
	return err
}

func checkAll(ctx context.Context, rdb redis.UniversalClient) (warnings []string, err error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return check(ctx, rdb, "Redis")
	}
	var mu sync.Mutex // the nodes are queried concurrently
	err = cluster.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error {
		name := "Redis at " + node.Options().Addr
		found, err := check(ctx, node, name)
		if _, old := errors.AsType[tooOldError](err); err != nil && !old {
			found, err = []string{fmt.Sprintf("%s was not checked: %v", name, err)}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, found...)
		return err
	})
	slices.Sort(warnings)
	return warnings, err
}

// tooOldError refuses a server because of its version.
type tooOldError struct{ name, version string }

func (e tooOldError) Error() string {
	return fmt.Sprintf("redisx: %s %s is too old: Stampede requires Redis %d or newer, or Valkey", e.name, e.version, MinMajor)
}

// check checks one server, which its warnings call name.
func check(ctx context.Context, rdb redis.Cmdable, name string) (warnings []string, err error) {
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return nil, fmt.Errorf("redisx: read version: %w", err)
	}
	for line := range strings.SplitSeq(info, "\r\n") {
		version, ok := strings.CutPrefix(line, "redis_version:")
		if !ok {
			continue
		}
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err == nil && n < MinMajor {
			return nil, tooOldError{name, version}
		}
	}
	for _, want := range []struct{ name, value, why string }{
		{"appendonly", "yes", "grants since the last snapshot are lost when Redis restarts"},
		{"appendfsync", "always", "grants of the last second may be lost when the machine fails"},
		{"maxmemory-policy", "noeviction", "Redis may evict the books of a running sale"},
	} {
		got, err := rdb.ConfigGet(ctx, want.name).Result()
		if err == nil && got[want.name] != "" && got[want.name] != want.value {
			warnings = append(warnings, fmt.Sprintf("%s has %s %s, want %s: %s", name, want.name, got[want.name], want.value, want.why))
		}
	}
	return warnings, nil
}
