package message

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

const (
	// leaderLife is how soon another instance goes on after one has died.
	leaderLife = 10 * time.Second
	// scheduleEvery is how late a reminder or a warning is made, at most.
	scheduleEvery = 5 * time.Second
	// walkPage is how many messages a step of a walk makes in one transaction.
	walkPage = 1000
	// calm is how long before an opening the last reminder is sent: then the crowd comes.
	calm = time.Minute
	// farthest is how far ahead openings are looked at: a reminder that would fall into the quiet hours goes out before them.
	farthest = 26 * time.Hour
	// forgetEvery and forgetAtMost bound the deletion of old rows.
	forgetEvery  = 10 * time.Minute
	forgetAtMost = 5000
)

// work makes and sends messages until ctx ends, while no other instance does.
func (s *Service) work(ctx context.Context) error {
	if len(s.deps.Channels) == 0 {
		<-ctx.Done()
		return nil
	}
	return app.Loop{
		Every: leaderLife / 3, Log: s.deps.Log, Failed: "messages are not sent, trying again",
		Do: func(ctx context.Context) error {
			if _, err := lease.Hold(ctx, s.deps.DB, s.deps.Log, "messages", s.holder, leaderLife, s.lead); ctx.Err() == nil {
				return err
			}
			return nil // the end of ctx is no outage
		},
	}.Run(ctx)
}

// due wakes the sender.
const due = `EXISTS (SELECT FROM notify.messages WHERE state = 'waiting' AND offer = false AND next_try <= clock_timestamp())
    OR EXISTS (SELECT FROM notify.messages WHERE state = 'waiting' AND offer AND next_try <= clock_timestamp())`

// lead makes what is due by the clock, and sends what there is, until ctx ends.
func (s *Service) lead(ctx context.Context, _ int64) error {
	loops, ctx := errgroup.WithContext(ctx)
	var forgotten time.Time
	loop := app.Loop{Every: scheduleEvery, Log: s.deps.Log, Failed: "reminders and warnings not made, trying again", Do: func(ctx context.Context) error {
		err := errors.Join(s.remind(ctx), s.warn(ctx))
		if err == nil && time.Since(forgotten) >= forgetEvery {
			forgotten = time.Now()
			err = s.forgetOld(ctx)
		}
		return err
	}}
	loops.Go(func() error { return loop.Run(ctx) })
	loops.Go(func() error { return s.sendLoop(ctx) })
	return loops.Wait()
}

// remind walks the reservations of what opens soon. Each page and the place after it are one transaction, so that a
// restart goes on where it was; the messages' key keeps a user who reserved several items of a session at one reminder.
func (s *Service) remind(ctx context.Context) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	rule, now := rules.of(Reminder), s.now()
	if !rule.On {
		return nil
	}
	for _, o := range s.deps.Sale.Openings(now.Add(calm), now.Add(farthest)) {
		from, until := rules.reminding(o.OpensAt.In(s.deps.Zone))
		if now.Before(from) || !now.Before(until) {
			continue
		}
		if err := s.remindOf(ctx, o, now, until); err != nil {
			return err
		}
	}
	return nil
}

// reminding is when the reminders of an opening are sent: shortly before it, or before the quiet hours that it lies in.
func (r *Rules) reminding(opens time.Time) (from, until time.Time) {
	ahead := r.of(Reminder).ahead()
	from, until = opens.Add(-ahead), opens.Add(-calm)
	if quiet, _, is := r.quiet(from); is {
		until = quiet
		from = until.Add(-ahead)
	}
	return from, until
}

// sessionOf names what a reminder is about: with its time, so that a session that is moved is told again.
func sessionOf(o seckillevent.Opening) string {
	return "session " + strconv.FormatInt(o.SessionID, 10) + " " + o.OpensAt.UTC().Format(time.RFC3339)
}

func (s *Service) remindOf(ctx context.Context, o seckillevent.Opening, now, until time.Time) error {
	w, err := s.walk(ctx, "reminder "+strconv.FormatInt(o.ItemID, 10))
	if err != nil {
		return err
	}
	if !w.At.Equal(o.OpensAt) {
		w = messagedb.NotifyMessageWalk{Name: w.Name, At: o.OpensAt}
	}
	for !w.Done {
		users, err := s.deps.Reserved.ReservedBy(ctx, o.ItemID, w.AfterUser, s.page)
		if err != nil {
			return fmt.Errorf("message: read reservations: %w", err)
		}
		if w.Done = len(users) < int(s.page); len(users) > 0 {
			w.AfterUser = users[len(users)-1]
		}
		drafts := make([]draft, len(users))
		for i, user := range users {
			drafts[i] = draft{user: user, about: sessionOf(o), facts: facts{Item: o.Title, At: o.OpensAt}, from: spread(user, now, until), expire: until}
		}
		if err := s.saved(ctx, Reminder, drafts, w); err != nil {
			return err
		}
	}
	return nil
}

// spread is a user's place in the first three quarters of a window; the last one is for what failed at first.
func spread(user int64, from, until time.Time) time.Time {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, user) // cannot fail
	return from.Add(time.Duration(float64(until.Sub(from)) * 3 / 4 * float64(h.Sum32()) / (1 << 32)))
}

// warn walks the unpaid orders by their deadline. A payment window that is shorter than twice the warning needs none: the
// message about the win names the same minutes.
func (s *Service) warn(ctx context.Context) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	rule := rules.of(Deadline)
	if !rule.On {
		return nil
	}
	w, err := s.walk(ctx, "deadline")
	if err != nil {
		return err
	}
	now := s.now()
	if w.At.Before(now) {
		w.At, w.AfterNo = now, ids.ID{} // those before are over
	}
	for more := true; more; {
		orders, err := s.deps.Orders.Unpaid(ctx, w.At, w.AfterNo, now.Add(rule.ahead()), int(s.page))
		if err != nil {
			return fmt.Errorf("message: read unpaid orders: %w", err)
		}
		if more = len(orders) == int(s.page); len(orders) == 0 {
			return nil
		}
		last := orders[len(orders)-1]
		w.At, w.AfterNo = last.PayDeadline, last.No
		if err := s.saved(ctx, Deadline, warnings(orders, rule.ahead()), w); err != nil {
			return err
		}
	}
	return nil
}

// walk reads how far a walk has come.
func (s *Service) walk(ctx context.Context, name string) (messagedb.NotifyMessageWalk, error) {
	w, err := messagedb.New(s.deps.DB).Walk(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return messagedb.NotifyMessageWalk{Name: name}, nil
	}
	if err != nil {
		return w, fmt.Errorf("message: read the walk %s: %w", name, err)
	}
	return w, nil
}

// saved makes messages together with the place of their walk.
func (s *Service) saved(ctx context.Context, k Kind, drafts []draft, w messagedb.NotifyMessageWalk) error {
	made, err := s.prepare(ctx, k, drafts)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		if err := insert(ctx, tx, made); err != nil {
			return err
		}
		if err := messagedb.New(tx).SaveWalk(ctx, messagedb.SaveWalkParams(w)); err != nil {
			return fmt.Errorf("message: save the walk %s: %w", w.Name, err)
		}
		return nil
	})
}

// forgetOld deletes what has ended long ago, in bounded steps.
func (s *Service) forgetOld(ctx context.Context) error {
	q := messagedb.New(s.deps.DB)
	err := errors.Join(q.ForgetAsks(ctx, forgetAtMost), q.ForgetWalks(ctx))
	for n := int64(forgetAtMost); n == forgetAtMost && err == nil; {
		n, err = q.ForgetOld(ctx, messagedb.ForgetOldParams{Before: placeOf(s.now().Add(-s.deps.Keep)), Most: forgetAtMost})
	}
	if err != nil {
		return fmt.Errorf("message: delete what is old: %w", err)
	}
	waiting, err := q.Waiting(ctx)
	s.waiting.Set(float64(waiting))
	return err
}
