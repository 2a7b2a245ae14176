package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/store/redisx"
)

// lookTimeout bounds the check of one store: long enough for a recursive DNS
// lookup and a swapping machine, short enough to wait for.
const lookTimeout = 10 * time.Second

// store is a server that a URL names.
type store struct {
	name           string // "PostgreSQL"
	least          string // the oldest supported version
	flag, variable string
	url            string
	look           func(ctx context.Context, url string) error
}

func database(url string) store {
	return store{
		name: "PostgreSQL", least: strconv.Itoa(pg.MinVersion / 10000), flag: "--database-url", variable: "STAMPEDE_DATABASE_URL", url: url, look: lookAtPostgres,
	}
}

func redisStore(url string) store {
	return store{
		name: "Redis", least: strconv.Itoa(redisx.MinMajor), flag: "--redis-url", variable: "STAMPEDE_REDIS_URL", url: url, look: lookAtRedis,
	}
}

func natsStore(url string) store {
	return store{name: "NATS", least: bus.MinVersion, flag: "--nats-url", variable: "STAMPEDE_NATS_URL", url: url, look: lookAtNATS}
}

// reach checks each store once, before anything uses them, so that a wrong URL
// is reported in one sentence that names the flag, and not by a driver's error.
// A later failure is then not caused by a setting.
func reach(ctx context.Context, stores ...store) error {
	for _, s := range stores {
		if s.url == "" {
			continue // an embedded NATS
		}
		if err := s.reach(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s store) reach(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := s.look(looking, s.url)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // interrupted, which says nothing about the store
		return fmt.Errorf("check %s: %w", s.name, ctx.Err())
	}
	return s.unusable(err)
}

// tooOldError is a store version that is not supported.
type tooOldError struct{ version string }

func (e tooOldError) Error() string { return "version " + e.version + " is too old" }

func lookAtPostgres(ctx context.Context, url string) error {
	conn, err := pg.Connect(ctx, url)
	if err != nil {
		return err
	}
	// The server reports it at login; if a proxy in between hides it, it is
	// assumed to be new enough.
	version := conn.PgConn().ParameterStatus("server_version")
	if major := leading(version); major > 0 && major < pg.MinVersion/10000 {
		err = tooOldError{version}
	}
	return errors.Join(err, conn.Close(ctx))
}

func lookAtRedis(ctx context.Context, url string) error {
	rdb, err := redisx.Open(ctx, url)
	if err != nil {
		return err
	}
	if _, group := rdb.(*redis.ClusterClient); group {
		return rdb.Close() // one node may be down, and the start checks every node's version
	}
	info, err := rdb.Info(ctx, "server").Result()
	_, rest, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	if major := leading(version); err == nil && major > 0 && major < redisx.MinMajor {
		err = tooOldError{version}
	}
	return errors.Join(err, rdb.Close())
}

func lookAtNATS(ctx context.Context, url string) error {
	deadline, _ := ctx.Deadline() // reach sets one
	// nats.go waits this long for each server in turn: all but one may be frozen.
	each := time.Until(deadline) / time.Duration(strings.Count(url, ",")+1)
	nc, err := nats.Connect(url, nats.Name("stampede"), nats.Timeout(each))
	if err != nil {
		return err
	}
	defer nc.Close()
	version := nc.ConnectedServerVersion()
	major, rest, _ := strings.Cut(version, ".")
	if leading(major) < 2 || leading(major) == 2 && leading(rest) < 12 {
		return tooOldError{version}
	}
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	return err
}

// leading returns the number at the beginning of a version, 0 if there is none:
// "15.4 (Debian)", "18beta1".
func leading(version string) int {
	end := strings.IndexFunc(version, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(version)
	}
	n, _ := strconv.Atoi(version[:end]) // 0 on error
	return n
}
