package redisx

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Check refuses a Redis that is too old and returns warnings about settings
// that would lose grants in a crash or a full memory. A managed Redis may hide
// its settings; what cannot be read is not warned about.
func Check(ctx context.Context, rdb redis.UniversalClient) (warnings []string, err error) {
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
			return nil, fmt.Errorf("redisx: Redis %s is too old: Stampede needs Redis %d or newer, or Valkey", version, MinMajor)
		}
	}
	for _, want := range []struct{ name, value, why string }{
		{"appendonly", "yes", "grants since the last snapshot are lost when Redis restarts"},
		{"appendfsync", "always", "grants of the last second may be lost when the machine fails"},
		{"maxmemory-policy", "noeviction", "Redis may evict the books of a running sale"},
	} {
		got, err := rdb.ConfigGet(ctx, want.name).Result()
		if err == nil && got[want.name] != "" && got[want.name] != want.value {
			warnings = append(warnings, fmt.Sprintf("Redis has %s %s, better is %s: %s", want.name, got[want.name], want.value, want.why))
		}
	}
	return warnings, nil
}
