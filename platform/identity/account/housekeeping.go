package account

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/identity/account/internal/accountdb"
)

const (
	// tidyEvery is how long expired rows may stay; each run deletes a few.
	tidyEvery = 10 * time.Minute
	// tidyAtMost bounds one statement, so that it holds its row locks only briefly;
	// a run repeats it until fewer rows were deleted.
	tidyAtMost = 5_000
	// keepCodes is how long a code's row, which contains a phone, outlives the code:
	// enough for clock skew, and no longer because it has no further use.
	keepCodes = 10 * time.Minute
)

// Workers returns the loop that deletes old codes, logins and notices. Several instances
// may run it: each row is deleted once.
func (s *Store) Workers() []app.Worker {
	return []app.Worker{{
		Name: "account-housekeeping",
		Run:  app.Loop{Every: tidyEvery, Do: s.Tidy, Log: s.Log, Failed: "deleting old codes and logins failed"}.Run,
	}}
}

// Tidy deletes expired codes, and logins that ended or expired and notices that are
// from longer ago than Config.KeepEnded.
func (s *Store) Tidy(ctx context.Context) error {
	q := accountdb.New(s.DB)
	for _, part := range []struct {
		name   string
		forget func() (int64, error)
	}{
		{"codes", func() (int64, error) {
			return q.ForgetCodes(ctx, accountdb.ForgetCodesParams{KeepSeconds: keepCodes.Seconds(), Most: tidyAtMost})
		}},
		{"logins", func() (int64, error) {
			return q.ForgetLogins(ctx, accountdb.ForgetLoginsParams{KeepSeconds: s.Config.KeepEnded.Seconds(), Most: tidyAtMost})
		}},
		{"notices", func() (int64, error) {
			return q.ForgetNotices(ctx, accountdb.ForgetNoticesParams{KeepSeconds: s.Config.KeepEnded.Seconds(), Most: tidyAtMost})
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
