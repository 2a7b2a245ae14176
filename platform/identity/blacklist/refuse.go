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

// ErrRefused is the answer to a listed user at every login route. Users, phones,
// devices and addresses get the same sentence, so that it does not reveal what to
// change.
var ErrRefused = fault.New(fault.Forbidden, "login-refused", fault.T("You cannot log in right now", "暂时无法登录，请联系客服"),
	fault.T("You cannot log in here at the moment. If you think this is a mistake, contact the shop's staff.",
		"您暂时不能登录。如有疑问，请联系商家客服。"),
	fault.T("Contact the shop.", "请联系商家客服。"))

const (
	// refusalEvery is how often the audit log records that an entry refused a
	// request: the log is never trimmed, and a refused client may retry a thousand
	// times.
	refusalEvery = 24 * time.Hour
	// maxRefusals bounds the queue to the worker, which runs once a second. A
	// refusal that does not fit is recorded at the entry's next one.
	maxRefusals = 256
)

// Refuse returns ErrRefused if any of the given values is listed, else nil; zero
// values are not looked up. way names the attempted operation in the audit log,
// which gets one record a day for each entry. It reads memory only.
func (s *Service) Refuse(way string, user int64, phone, device string, from netip.Addr) error {
	e, listed := s.Listed(user, phone, device, from)
	if !listed {
		return nil
	}
	s.refused.Inc()
	s.refusals.note(refusal{e, way, user}, s.deps.Clock.Now())
	return ErrRefused
}

// refusal is one request that an entry refused.
type refusal struct {
	entry Entry
	way   string
	user  int64 // 0 when the user is unknown
}

// refusals is the queue of refusals for the audit log.
type refusals struct {
	mu      sync.Mutex
	told    map[int64]time.Time // by entry; at most the current entries and those removed within a day
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

// take returns the queued refusals, and forgets entries recorded long ago.
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

// untold makes the next refusal record what could not be written.
func (r *refusals) untold(all []refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range all {
		delete(r.told, what.entry.ID)
	}
}

// recordRefusals writes the queued refusals to the audit log.
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
			if err := audit.Note(ctx, tx, "blacklist.refuse", subjectOf(r.entry), d); err != nil {
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

// keepRecording records refusals until ctx ends, including those that are queued at
// that time.
func (s *Service) keepRecording(ctx context.Context) error {
	loop := app.Loop{Every: recordEvery, Do: s.recordRefusals, Log: s.deps.Log, Failed: "recording blacklist refusals in the audit log failed"}
	_ = loop.Run(ctx) // never fails
	if err := s.recordRefusals(context.WithoutCancel(ctx)); err != nil {
		s.deps.Log.WarnContext(ctx, "recording the last blacklist refusals in the audit log failed", "error", err)
	}
	return nil
}
