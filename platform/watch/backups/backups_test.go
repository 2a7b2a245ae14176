package backups

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/preflight"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// A backup is made every night by one instance, after the sale, and again soon when it failed; pre-sale checks and the
// operators' list say when the last good one was.
func TestBackupEveryNight(t *testing.T) {
	t.Parallel()
	db, dir := pgtest.DB(t), filepath.Join(t.TempDir(), "backups")
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	zone := time.FixedZone("shop", 8*60*60)
	today := time.Now().In(zone)
	now := time.Date(today.Year(), today.Month(), today.Day(), 20, 0, 0, 0, zone) // of a sale
	closes := now.Add(time.Hour)
	instance := func() *Service {
		s, err := New(Settings{BackupTo: dir, BackupFor: key.Recipient().String(), BackupAt: "04:00", BackupKeep: 2}, Deps{
			DB: db, DatabaseURL: db.Config().ConnString(), SigningKey: "key", Version: "test", Zone: zone,
			Tool: func(name string) (string, error) {
				found, err := embedded.Find()
				return found.Tool(name), err
			},
			Selling: func(_, until time.Time) bool { return !until.Before(now) && now.Before(closes) }, Log: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		s.began, s.now = now, func() time.Time { return now }
		return s
	}
	first, second := instance(), instance()
	look := func() error {
		other := make(chan error)
		go func() { other <- second.look(t.Context()) }()
		return errors.Join(first.look(t.Context()), <-other)
	}
	made := func(why string, want int) {
		t.Helper()
		require.NoError(t, look())
		names, err := first.to.Names(t.Context())
		require.NoError(t, err)
		require.Equal(t, why, len(names), want)
	}
	says := func(level preflight.Level, word string) {
		t.Helper()
		line := preflight.Run(t.Context(), preflight.Need{}, []preflight.Check{first.Preflight()})[0]
		require.Equal(t, "level of the check", line.Level, level)
		require.Contains(t, "the check", line.Found, word)
	}
	says(preflight.Warning, "There is no good backup yet.")
	made("backups during the first sale", 0)
	now = closes
	made("backups after the sale", 1)
	says(preflight.OK, "The last good backup was made ")
	made("backups of the same night", 1)

	day := func() {
		t.Helper()
		now = now.AddDate(0, 0, 1)
	}
	for range 2 {
		day()
		made("backups, of which two are kept", 2)
	}

	// A night in which it cannot be written.
	day()
	require.NoError(t, os.Rename(dir, dir+" away"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	if err := look(); err == nil {
		t.Error("a backup was written to a file")
	}
	alarms, err := alarm.List(t.Context(), db, alarm.Filter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "alarms", []any{len(alarms), alarms[0].Code}, []any{1, Failed.Code})
	require.Contains(t, "the alarm", alarms[0].Detail, "not a directory")
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(dir+" away", dir))
	require.NoError(t, look())
	says(preflight.OK, "The last good")
	require.Equal(t, "attempts", len(listed(t, first)), 4)
	now = now.Add(againAfter + time.Minute)
	made("backups ten minutes later, of which two are kept", 2)
	require.Equal(t, "attempts", len(listed(t, first)), 5)

	now = now.Add(oldAfter + time.Hour)
	says(preflight.Warning, "The last good")
	closes = now.Add(365 * 24 * time.Hour) // a sale that never ends
	first.began, second.began = now, now
	require.NoError(t, look())
	require.Equal(t, "attempts while the sale has priority", len(listed(t, first)), 5)
	now = now.Add(mostPatience + time.Minute)
	require.NoError(t, look())
	require.Equal(t, "attempts after that", len(listed(t, first)), 6)
}

// A bucket whose service has hung costs a backup, not the lease and all backups to come.
func TestBucketHangs(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and answers nothing
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	s, err := New(Settings{
		BackupTo: "s3://key:secret@" + silent.Addr().String() + "/bucket", BackupAt: "04:00", BackupKeep: 2,
		BackupFor: "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z",
	}, Deps{
		DB: db, DatabaseURL: db.Config().ConnString(), Zone: time.UTC, Log: slog.New(slog.DiscardHandler),
		Tool: func(name string) (string, error) { return name, nil }, Selling: func(_, _ time.Time) bool { return false },
	})
	require.NoError(t, err)
	s.longest = 200 * time.Millisecond
	if err := s.look(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a backup to a bucket that hangs: %v", err)
	}
	alarms, err := alarm.List(t.Context(), db, alarm.Filter{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "alarms", len(alarms), 1)
}

// What a clock that was ahead has noted, and backups at another place, delay no backup.
func TestDueDespiteOtherBackups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, place, name string
		ahead               time.Duration
		due                 bool
	}{
		{"a good one", "/backups", "a", 0, false},
		{"a good one of an instance whose clock is a little ahead", "/backups", "a", time.Minute, false},
		{"a failure", "/backups", "", 0, false},
		{"a good one of next year", "/backups", "a", 365 * 24 * time.Hour, true},
		{"a failure of next year", "/backups", "", 365 * 24 * time.Hour, true},
		{"a good one at another place", "/elsewhere", "a", 0, true},
	} {
		t.Run(c.before, func(t *testing.T) {
			t.Parallel()
			db := pgtest.DB(t)
			s, err := New(Settings{BackupTo: "/backups", BackupFor: "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z", BackupAt: "04:00"}, Deps{
				DB: db, Zone: time.UTC, Tool: func(name string) (string, error) { return name, nil }, Selling: func(_, _ time.Time) bool { return false },
			})
			require.NoError(t, err)
			now := time.Date(2026, 11, 29, 4, 1, 0, 0, time.UTC)
			s.now = func() time.Time { return now }
			pgtest.Exec(t, db, `INSERT INTO platform.backups (began_at, place, name) VALUES ($1, $2, $3)`, now.Add(c.ahead), c.place, c.name)
			due, err := s.due(t.Context())
			require.NoError(t, err)
			require.Equal(t, "due", due, c.due)
		})
	}
}

// listed are the backups as operators read them.
func listed(t *testing.T, s *Service) []any {
	t.Helper()
	tokens := auth.NewTokens([]byte(strings.Repeat("k", 32)), time.Now)
	rt := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	s.Routes(rt)
	status, doc := httpxtest.As(t, rt, tokens, auth.Viewer, http.MethodGet, "/api/v1/admin/backups", "")
	require.Equal(t, "status", status, http.StatusOK)
	require.Equal(t, "a last good one", doc["last_good"] != nil, true)
	all, _ := doc["backups"].([]any)
	return all
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]Settings{
		"--backup-at must be a time of day": {BackupAt: "4 o'clock"},
		"--backup-to: a bucket must be":     {BackupAt: "04:00", BackupTo: "s3://nowhere"},
		"--backup-for must be a public key": {BackupAt: "04:00", BackupTo: "/backups"},
	} {
		if err := set.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", set, err, want)
		}
	}
	_, err := New(Settings{BackupTo: "/backups", BackupFor: "age1lvyvwawkr0mcnnnncaghunadrqkmuf9e6507x9y920xxpp866cnql7dp2z", BackupAt: "04:00"}, Deps{
		Tool: func(name string) (string, error) { return "", errors.New(name + " is missing") },
	})
	require.Equal(t, "without pg_dump", err != nil && err.Error() == "--backup-to: pg_dump is missing", true)
	none, err := New(Settings{BackupAt: "04:00"}, Deps{})
	require.NoError(t, err)
	require.Equal(t, "workers without a place", len(none.Workers()), 0)
	found, err := none.Preflight().Look(context.Background(), preflight.Need{})
	require.NoError(t, err)
	require.Equal(t, "without a place", found[0].Level, preflight.Warning)
}
