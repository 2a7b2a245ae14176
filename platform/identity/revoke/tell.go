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
	// perMessage keeps a broadcast well below a megabyte, the most that NATS takes,
	// and a script's run short.
	perMessage = 1000
	// maxUntold bounds what waits for a Redis that does not answer. It takes more
	// than an hour of a large shop's logouts to fill, and entries do not count longer.
	maxUntold = 100_000
	// tellWithin bounds how long Tell keeps whoever revoked.
	tellWithin = time.Second
)

//go:embed put.lua
var putSource string

var putScript = redis.NewScript(putSource)

// Tell puts what was committed before into force, here at once and elsewhere as
// soon as they hear of it. It may be lost: half a second later every instance
// finds the rows by itself.
func (s *Service) Tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin) // the client may have left
	defer cancel()
	_ = s.look(ctx, time.Now()) // the worker's next look says what is wrong
}

// tell passes on what this instance was the first to find.
func (s *Service) tell(ctx context.Context, fresh []entry) {
	texts := make([]string, len(fresh))
	for i, e := range fresh {
		texts[i] = e.String()
	}
	for first := 0; first < len(texts); first += perMessage {
		part := texts[first:min(first+perMessage, len(texts))]
		if err := s.deps.Bus.Broadcast(subject, []byte(strings.Join(part, "\n"))); err != nil {
			break // the bus says so itself; the others look
		}
	}
	s.untold = append(s.untold, fresh...)
	s.untold = s.untold[max(0, len(s.untold)-maxUntold):]
	if err := s.writeRedis(ctx); err != nil {
		s.deps.Log.DebugContext(ctx, "revocations are not in Redis yet", "error", err)
	}
}

// writeRedis writes what Redis was not told yet.
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
	s.untold = nil // gives the memory back
	return nil
}

// listen takes the broadcasts until ctx ends.
func (s *Service) listen(ctx context.Context) error {
	stop, err := s.deps.Bus.OnBroadcast(subject, func(data []byte) { s.hear(ctx, strings.Split(string(data), "\n")) })
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// hear puts into force what another instance told.
func (s *Service) hear(ctx context.Context, texts []string) {
	entries, unread := parseAll(texts)
	if unread > 0 {
		s.deps.Log.WarnContext(ctx, "revocations could not be read and are left to Postgres", "count", unread)
	}
	s.list.add(entries)
}

const (
	// tidyEvery is how long an expired entry may stay in memory and in the table.
	tidyEvery = 10 * time.Minute
	// tidyTimeout bounds one step of it.
	tidyTimeout = 10 * time.Second
	// tidyAtMost bounds what one statement deletes, so that it holds its row locks
	// for a moment only; what is left has the next turn.
	tidyAtMost = 10_000
)

// tidy forgets what has expired. Each instance does; a row can be deleted once.
func (s *Service) tidy(ctx context.Context) error {
	return app.Loop{Every: tidyEvery, Do: s.forget, Log: s.deps.Log, Failed: "expired revocations are still there"}.Run(ctx)
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
