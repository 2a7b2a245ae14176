package revoke

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/identity/revoke/internal/revokedb"
)

const (
	// subject carries revocations to every instance.
	subject = "broadcast.auth.revoked"
	// perMessage keeps a broadcast well below one megabyte, the NATS limit, and a
	// script's run short.
	perMessage = 1000
	// maxUntold bounds what is queued for a Redis that does not answer. A large shop
	// takes more than an hour of logouts to fill it, and entries older than that are
	// not read from Redis.
	maxUntold = 100_000
	// tellWithin bounds how long Tell blocks its caller.
	tellWithin = time.Second
)

//go:embed put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// Tell puts committed revocations into force: on this instance immediately, on the
// others as soon as the broadcast arrives. The call may fail or be lost: every
// instance finds the rows within half a second.
func (s *Service) Tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin) // the client may have left
	defer cancel()
	_ = s.look(ctx, time.Now()) // the worker's next read logs the error
}

// tell broadcasts the entries that this instance was the first to find.
func (s *Service) tell(ctx context.Context, fresh []entry) {
	texts := make([]string, len(fresh))
	for i, e := range fresh {
		texts[i] = e.String()
	}
	for first := 0; first < len(texts); first += perMessage {
		part := texts[first:min(first+perMessage, len(texts))]
		if err := s.deps.Bus.Broadcast(subject, []byte(strings.Join(part, "\n"))); err != nil {
			break // the bus logs it; the other instances read Postgres
		}
	}
	s.untold = append(s.untold, fresh...)
	s.untold = s.untold[max(0, len(s.untold)-maxUntold):]
	if err := s.writeRedis(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "writing revocations to Redis failed, retrying with the next ones", "error", err)
	}
}

// writeRedis writes the queued entries to Redis.
func (s *Service) writeRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	for len(s.untold) > 0 {
		part := s.untold[:min(perMessage, len(s.untold))]
		args := make([]any, 1, 1+len(part))
		args[0] = redisKeeps.Microseconds()
		for _, e := range part {
			args = append(args, e.String())
		}
		if err := putScript.Run(ctx, s.deps.Redis, []string{recentKey}, args...).Err(); err != nil {
			return fmt.Errorf("revoke: write revocations: %w", err)
		}
		s.untold = s.untold[len(part):]
	}
	s.untold = nil // frees the memory
	return nil
}

// listen handles broadcasts until ctx ends.
func (s *Service) listen(ctx context.Context) error {
	stop, err := s.deps.Bus.OnBroadcast(subject, func(data []byte) { s.hear(ctx, strings.Split(string(data), "\n")) })
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// hear puts another instance's broadcast into force.
func (s *Service) hear(ctx context.Context, texts []string) {
	entries, unread := parseAll(texts)
	if unread > 0 {
		s.deps.Log.WarnContext(ctx, "unreadable revocations skipped, Postgres will be read instead", "count", unread)
	}
	s.list.add(entries)
}

const (
	// tidyEvery is how long an expired entry may stay in memory and in the table.
	tidyEvery = 10 * time.Minute
	// tidyTimeout bounds one run.
	tidyTimeout = 10 * time.Second
	// tidyAtMost bounds one statement's deletes, so that it holds its row locks only
	// briefly; the next run deletes the rest.
	tidyAtMost = 10_000
)

// tidy drops expired revocations. Every instance runs it; deleting a row twice is
// harmless.
func (s *Service) tidy(ctx context.Context) error {
	return app.Loop{Every: tidyEvery, Do: s.forget, Log: s.deps.Log, Failed: "deleting expired revocations failed"}.Run(ctx)
}

// forget drops expired revocations from memory and from the table.
func (s *Service) forget(ctx context.Context) error {
	s.list.forget(s.deps.Clock.Now())
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	err := revokedb.New(s.deps.DB).RemoveExpired(ctx, tidyAtMost)
	if err != nil {
		return fmt.Errorf("revoke: delete expired revocations: %w", err)
	}
	return nil
}
