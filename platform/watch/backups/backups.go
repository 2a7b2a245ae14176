// Package backups makes a backup of the shop every night, and says in pre-sale checks and to operators when the last good
// one was made.
//
// One instance makes it, under a lease. A sale comes first: a backup waits while items are on sale or about to be, for six
// hours at most. One that failed raises an alarm and is tried again after ten minutes. The first is made as soon as the
// place is set, which shows at once that it works.
package backups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/backup"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/backups/internal/backupsdb"
	"stampede/platform/watch/preflight"
)

// Settings say where backups go, and when.
type Settings struct {
	BackupTo   string `name:"backup-to" default:"" env:"STAMPEDE_BACKUP_TO" help:"Where a backup is written every night: a folder, or a bucket as s3://KEY:SECRET@HOST/BUCKET/PREFIX. Empty: none is made." secret:""`
	BackupFor  string `name:"backup-for" default:"" env:"STAMPEDE_BACKUP_FOR" help:"Public key of age that backups are encrypted for, age1…; stampede backup --new-key makes one."`
	BackupAt   string `name:"backup-at" default:"04:00" env:"STAMPEDE_BACKUP_AT" help:"When, in the shop's time zone." rare:""`
	BackupKeep int    `name:"backup-keep" default:"14" env:"STAMPEDE_BACKUP_KEEP" help:"How many backups stay there; after a good one the oldest are deleted." min:"1" max:"1000" rare:""`
}

const clockLayout = "15:04"

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	_, err := s.parse()
	return err
}

// plan is what the settings say.
type plan struct {
	to      backup.Place // nil: none are made
	readers []age.Recipient
	at      time.Time // of its day
}

func (s Settings) parse() (p plan, err error) {
	if p.at, err = time.Parse(clockLayout, s.BackupAt); err != nil {
		return p, fmt.Errorf("--backup-at must be a time of day such as 04:00, not %q", s.BackupAt)
	}
	if s.BackupTo == "" {
		return p, nil
	}
	if p.to, err = backup.At(s.BackupTo); err != nil {
		return p, fmt.Errorf("--backup-to: %w", err)
	}
	if p.readers, err = age.ParseRecipients(strings.NewReader(s.BackupFor)); err != nil {
		return p, errors.New("--backup-for must be a public key of age, which begins with age1: make one with `stampede backup --new-key FILE`")
	}
	return p, nil
}

const (
	// lookEvery is how late a backup may begin; each look is two indexed queries.
	lookEvery = time.Minute
	leaseLife = time.Minute
	// againAfter is the pause after one that failed.
	againAfter = 10 * time.Minute
	// clockGap is how far the clocks of two instances may differ.
	clockGap = 10 * time.Minute
	// mostPatience is how long a sale delays a backup, and before is how long before an opening the delay begins.
	mostPatience = 6 * time.Hour
	before       = 15 * time.Minute
	// oldAfter makes a pre-sale check warn: a day, and the time in which a sale delays the next one.
	oldAfter = 24*time.Hour + mostPatience
)

// Failed is raised when a backup could not be made.
var Failed = alarm.Define("backup-failed", alarm.Warning,
	fault.T("A backup could not be made. The one before is still there; another attempt follows every ten minutes.",
		"未能完成备份。上一份备份仍在，每十分钟会重试一次。"),
	fault.T("Read the detail: often the disk is full or the server may not write there, the bucket's key has expired, or pg_dump is older than the server.",
		"查看详情，常见原因：磁盘已满、服务器无权写入该处、存储桶密钥已过期，或 pg_dump 版本低于服务器。"))

// Deps are what backups are made of; all are required.
type Deps struct {
	DB          *pgxpool.Pool
	DatabaseURL string
	SigningKey  string
	Version     string
	Zone        *time.Location
	// Tool returns the path of a client program of Postgres.
	Tool func(name string) (string, error)
	// Selling reports whether items are on sale between two moments.
	Selling func(from, until time.Time) bool
	Log     *slog.Logger
}

// Service makes backups. Safe for concurrent use.
type Service struct {
	Settings
	Deps
	plan

	pgDump string
	holder string
	began  time.Time // this process

	// Tests replace these.
	now     func() time.Time
	longest time.Duration
}

// New returns a Service. It fails where backups are asked for and pg_dump is missing.
func New(set Settings, deps Deps) (*Service, error) {
	p, err := set.parse()
	if err != nil {
		return nil, err
	}
	s := &Service{Settings: set, Deps: deps, plan: p, holder: ids.New().String(), began: time.Now(), now: time.Now, longest: backup.Longest}
	if s.to != nil {
		if s.pgDump, err = deps.Tool("pg_dump"); err != nil {
			return nil, fmt.Errorf("--backup-to: %w", err)
		}
	}
	return s, nil
}

// Workers returns the loop that makes backups.
func (s *Service) Workers() []app.Worker {
	if s.to == nil {
		return nil
	}
	return []app.Worker{{Name: "backups", Run: app.Loop{Every: lookEvery, Log: s.Log, Failed: "making a backup failed", Do: s.look}.Run}}
}

// look makes a backup if one is due and no other instance makes it.
func (s *Service) look(ctx context.Context) error {
	if due, err := s.due(ctx); err != nil || !due {
		return err
	}
	_, err := lease.Hold(ctx, s.DB, s.Log, "backup", s.holder, leaseLife, func(ctx context.Context, _ int64) error {
		if due, err := s.due(ctx); err != nil || !due {
			return err // another instance has made it meanwhile
		}
		return s.create(ctx)
	})
	return err
}

func (s *Service) due(ctx context.Context) (bool, error) {
	good, ok, err := s.lastGood(ctx)
	if err != nil {
		return false, err
	}
	now, planned := s.now(), s.planned()
	if ok && !good.BeganAt.Before(planned) {
		return false, nil
	}
	last, err := backupsdb.New(s.DB).Latest(ctx, 1)
	if err != nil {
		return false, fmt.Errorf("backups: read the latest: %w", err)
	}
	if len(last) > 0 && last[0].Name == "" && now.Sub(last[0].BeganAt).Abs() < againAfter {
		return false, nil
	}
	waits := planned // since when, if it has to
	if s.began.After(waits) {
		waits = s.began
	}
	return !s.Selling(now, now.Add(before)) || now.Sub(waits) > mostPatience, nil
}

// planned is the last moment that a backup was planned for.
func (s *Service) planned() time.Time {
	now := s.now().In(s.Zone)
	at := time.Date(now.Year(), now.Month(), now.Day(), s.at.Hour(), s.at.Minute(), 0, 0, s.Zone)
	if at.After(now) {
		at = at.AddDate(0, 0, -1)
	}
	return at
}

// lastGood is the last backup that was made whole at the place that is set now; false if there is none.
func (s *Service) lastGood(ctx context.Context) (row backupsdb.PlatformBackup, ok bool, err error) {
	if s.to == nil {
		return row, false, nil
	}
	row, err = backupsdb.New(s.DB).LastGood(ctx, backupsdb.LastGoodParams{Place: s.to.String(), Until: s.now().Add(clockGap)})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, false, nil
	}
	if err != nil {
		return row, false, fmt.Errorf("backups: read the last good one: %w", err)
	}
	return row, true, nil
}

func (s *Service) create(ctx context.Context) error {
	q := backupsdb.New(s.DB)
	began := s.now()
	id, err := q.Begin(ctx, backupsdb.BeginParams{Place: s.to.String(), BeganAt: began})
	if err != nil {
		return fmt.Errorf("backups: begin: %w", err)
	}
	bounded, stop := context.WithTimeout(ctx, s.longest)
	defer stop()
	name, size, failure := backup.Create(bounded, s.to, s.pgDump, s.DatabaseURL,
		backup.About{Version: s.Version, Made: began.UTC().Truncate(time.Second), SigningKey: s.SigningKey}, s.readers...)
	if ctx.Err() != nil {
		return failure // the process stops, or has lost its lease; the row stays without an end
	}
	end := backupsdb.EndParams{ID: id, EndedAt: s.now(), Name: name, Bytes: size}
	if failure != nil {
		end.Error = failure.Error()
	}
	if err := q.End(ctx, end); err != nil {
		return fmt.Errorf("backups: store the end: %w", err)
	}
	if failure != nil {
		return errors.Join(failure, Failed.Raise(ctx, s.DB, "backup", failure.Error()))
	}
	deleted, err := backup.Prune(ctx, s.to, s.BackupKeep, s.now())
	s.Log.InfoContext(ctx, "backup made", "place", s.to.String(), "name", name, "bytes", size, "older_deleted", deleted)
	if err != nil {
		return errors.Join(err, Failed.Raise(ctx, s.DB, "old backups", err.Error()))
	}
	return nil
}

// Preflight is the check of the last good backup.
func (s *Service) Preflight() preflight.Check {
	return preflight.Check{
		Code: "last-backup", Titles: fault.T("Last backup", "最近一次备份"),
		Next: fault.T("Set --backup-to, or read what the alarm backup-failed says.", "设置 --backup-to，或查看告警 backup-failed。"),
		Look: func(ctx context.Context, _ preflight.Need) ([]preflight.Finding, error) {
			if s.to == nil {
				return []preflight.Finding{{Level: preflight.Warning, Found: fault.T("No backups are made.", "未设置自动备份。")}}, nil
			}
			good, ok, err := s.lastGood(ctx)
			switch {
			case err != nil:
				return nil, err
			case !ok:
				return []preflight.Finding{{Level: preflight.Warning, Found: fault.T("There is no good backup yet.", "尚无可用的备份。")}}, nil
			}
			found := preflight.Finding{Level: preflight.OK, Found: fault.T("The last good backup was made {at}: {mb} MB.", "最近一次备份：{at}，{mb} MB。",
				"at", good.BeganAt.In(s.Zone).Format(time.DateTime), "mb", fmt.Sprintf("%.1f", float64(good.Bytes)/1e6))}
			if s.now().Sub(good.BeganAt) > oldAfter {
				found.Level = preflight.Warning
			}
			return []preflight.Finding{found}, nil
		},
	}
}
