package account

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/identity/account/internal/accountdb"
)

const (
	// tidyEvery is how late what is old may go; a few rows each time.
	tidyEvery = 10 * time.Minute
	// tidyAtMost bounds one statement, so that it holds its row locks for a moment
	// only; a round repeats it until less was left.
	tidyAtMost = 5_000
	// keepCodes is how long a code's row, which names a phone, outlives the code:
	// long enough for a clock that is off, as it serves nothing.
	keepCodes = 10 * time.Minute
)

// Workers returns the loop that forgets old codes and logins. Several instances
// may run it: rows are deleted once.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "account-housekeeping", Run: s.keepHouse}}
}

// keepHouse works at once and every tidyEvery until ctx ends, then returns nil.
func (s *Service) keepHouse(ctx context.Context) error {
	return app.Loop{Every: tidyEvery, Do: s.Tidy, Log: s.deps.Log, Failed: "old codes and logins are not forgotten yet"}.Run(ctx)
}

// Tidy deletes codes that have expired, and logins that ended or ran out longer
// ago than Config.KeepEnded.
func (s *Service) Tidy(ctx context.Context) error {
	q := accountdb.New(s.deps.DB)
	for _, part := range []struct {
		name   string
		forget func() (int64, error)
	}{
		{"codes", func() (int64, error) {
			return q.ForgetCodes(ctx, accountdb.ForgetCodesParams{KeepSeconds: keepCodes.Seconds(), Most: tidyAtMost})
		}},
		{"logins", func() (int64, error) {
			return q.ForgetLogins(ctx, accountdb.ForgetLoginsParams{KeepSeconds: s.cfg.KeepEnded.Seconds(), Most: tidyAtMost})
		}},
	} {
		for {
			n, err := part.forget()
			if err != nil {
				return fmt.Errorf("account: forget %s: %w", part.name, err)
			}
			if n < tidyAtMost {
				break
			}
		}
	}
	return nil
}
