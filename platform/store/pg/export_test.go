package pg

import (
	"context"
	"log/slog"
	"time"
)

// AcquireInstanceLockWithin takes the lock with shorter times.
func AcquireInstanceLockWithin(ctx context.Context, url string, check, silence time.Duration) (*InstanceLock, error) {
	return acquire(ctx, url, false, slog.New(slog.DiscardHandler), check, silence)
}

// ShareInstanceLockWithin shares the lock with shorter times.
func ShareInstanceLockWithin(ctx context.Context, url string, check, silence time.Duration) (*InstanceLock, error) {
	return acquire(ctx, url, true, slog.New(slog.DiscardHandler), check, silence)
}

// MigrateWithin is Migrate with shorter times.
func MigrateWithin(ctx context.Context, url string, wait, pause time.Duration) (from, to int64, err error) {
	return migrate(ctx, url, wait, pause)
}

// SessionSettings are the names of the profile's settings.
func SessionSettings() (names []string) {
	for _, s := range sessionSettings {
		names = append(names, s.name)
	}
	return names
}
