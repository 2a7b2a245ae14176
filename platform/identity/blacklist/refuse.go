package blacklist

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// ErrRefused is what whoever is listed is told where people log in. It is one
// sentence for users, phones, devices and addresses, so that it does not say what
// to change.
var ErrRefused = fault.New(fault.Forbidden, "login-refused", fault.Titles{"You cannot log in right now", "暂时无法登录，请联系客服"},
	"You cannot log in here at the moment. If you think that this is a mistake, ask the shop's staff.")

const (
	// refusalEvery is how often the audit log is told that an entry keeps somebody
	// out: it is never trimmed, and whoever is kept out may try a thousand times.
	refusalEvery = 24 * time.Hour
	// maxRefusals bounds what waits for the worker, which comes once a second. What
	// finds no room is noted at the entry's next refusal.
	maxRefusals = 256
)

// Refuse returns ErrRefused for whoever is listed by any of what is known of them,
// else nil; zero values are not looked up. way names what they tried, in the audit
// log, which is told once a day for each entry. It reads memory only.
func (s *Service) Refuse(way string, user int64, phone, device string, from netip.Addr) error {
	e, listed := s.Listed(user, phone, device, from)
	if !listed {
		return nil
	}
	s.refused.Inc()
	s.refusals.note(refusal{e, way, user}, s.deps.Clock.Now())
	return ErrRefused
}

// refusal is somebody whom an entry kept out.
type refusal struct {
	entry Entry
	way   string
	user  int64 // 0 when it was not known who
}

// refusals wait to be written down.
type refusals struct {
	mu      sync.Mutex
	told    map[int64]time.Time // by entry: as many as there are, and those removed in a day
	pending []refusal
}

func (r *refusals) note(what refusal, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.told[what.entry.ID]; known && now.Sub(last) < refusalEvery || len(r.pending) >= maxRefusals {
		return
	}
	r.told[what.entry.ID] = now
	r.pending = append(r.pending, what)
}

// take hands out what waits, and forgets what was told long ago.
func (r *refusals) take(now time.Time) []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.pending
	r.pending = nil
	if len(taken) > 0 {
		for id, last := range r.told {
			if now.Sub(last) >= refusalEvery {
				delete(r.told, id)
			}
		}
	}
	return taken
}

// untold has what could not be written down noted at the next refusal.
func (r *refusals) untold(all []refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range all {
		delete(r.told, what.entry.ID)
	}
}

// recordRefusals writes down what waits.
func (s *Service) recordRefusals(ctx context.Context) error {
	all := s.refusals.take(s.deps.Clock.Now())
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		for _, r := range all {
			d := detail(r.entry)
			d["way"] = r.way
			if r.user > 0 {
				d["user"] = r.user
			}
			if err := audit.Record(ctx, tx, "blacklist.refuse", subjectOf(r.entry), d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.refusals.untold(all)
	}
	return err
}

// keepRecording writes refusals down until ctx ends, those that still wait then
// included.
func (s *Service) keepRecording(ctx context.Context) error {
	loop := app.Loop{Every: recordEvery, Do: s.recordRefusals, Log: s.deps.Log, Failed: "refusals are not in the audit log yet"}
	_ = loop.Run(ctx) // it never fails
	if err := s.recordRefusals(context.WithoutCancel(ctx)); err != nil {
		s.deps.Log.WarnContext(ctx, "the last refusals are not in the audit log", "error", err)
	}
	return nil
}
