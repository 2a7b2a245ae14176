package message

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/notify/message/internal/messagedb"
	"stampede/order/orderevent"
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
	// walkPause is between two pages: a hundred thousand reminders are made in twenty seconds, in which a sale keeps its speed.
	walkPause = 200 * time.Millisecond
	// calm is how long before an opening the last reminder is sent: the crowd comes in that minute.
	calm = time.Minute
	// farthest is how far ahead openings are looked at: a reminder that would fall into the quiet hours goes out before them.
	farthest = 26 * time.Hour
	// forgetAtMost rows are deleted each forgetEvery, seven million a day, so that a sale of the past does not weigh on
	// one of today.
	forgetEvery  = time.Minute
	forgetAtMost = 5000
)

// work makes and sends messages until ctx ends, while no other instance does. E-mail has a lease of its own: a term ends
// with its last call, for which a mail server that hangs may take a minute.
func (s *Service) work(ctx context.Context) error {
	campaigns, ctx := errgroup.WithContext(ctx)
	for name, mail := range map[string]bool{"messages": false, "messages by mail": true} {
		campaigns.Go(func() error {
			return lease.Campaign(ctx, s.deps.DB, s.deps.Log, name, s.holder, leaderLife, "messages are not sent, trying again",
				func(ctx context.Context, _ int64) error { return s.lead(ctx, mail) })
		})
	}
	return campaigns.Wait()
}

// lead sends what there is, by mail or by the others, until ctx ends; the leader of the others also makes what is due by the
// clock.
func (s *Service) lead(ctx context.Context, mail bool) error {
	loops, ctx := errgroup.WithContext(ctx)
	backlog := new(atomic.Bool)
	for _, offers := range []bool{false, true} {
		loops.Go(func() error { return s.sendLoop(ctx, lane{offers, mail}, backlog) })
	}
	if mail {
		return loops.Wait()
	}
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
	return loops.Wait()
}

// remind walks the reservations of what opens soon. Each page and the place after it are one transaction, so that a
// restart goes on where it was; the messages' key keeps a user who reserved several items of a session at one reminder.
func (s *Service) remind(ctx context.Context) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	now := s.now()
	if !rules.of(Reminder).On {
		return nil
	}
	var due []seckillevent.Opening
	var names []string
	for _, o := range s.deps.Sale.Openings(now.Add(calm), now.Add(farthest)) {
		if from, until := rules.reminding(o.OpensAt.In(s.deps.Zone)); !now.Before(from) && now.Before(until) {
			due, names = append(due, o), append(names, walkOf(o))
		}
	}
	walks, err := s.walks(ctx, names...)
	for _, o := range due {
		_, until := rules.reminding(o.OpensAt.In(s.deps.Zone))
		if err == nil {
			err = s.remindOf(ctx, rules, o, walks[walkOf(o)], until)
		}
	}
	return err
}

// reminding is when the reminders of an opening are sent: shortly before it, or before the quiet hours in which that
// would end.
func (r *Rules) reminding(opens time.Time) (from, until time.Time) {
	until = opens.Add(-calm)
	from = opens.Add(-r.of(Reminder).ahead())
	if quiet, _, is := r.quiet(until); is {
		from, until = quiet.Add(-r.of(Reminder).ahead()), quiet
	}
	return from, until
}

// walkOf names the walk over an item's reservations.
func walkOf(o seckillevent.Opening) string { return "reminder " + strconv.FormatInt(o.ItemID, 10) }

// sessionOf names what a reminder is about: with its time, so that a session that is moved gets new ones.
func sessionOf(o seckillevent.Opening) string {
	return "session " + strconv.FormatInt(o.SessionID, 10) + " " + o.OpensAt.UTC().Format(time.RFC3339)
}

func (s *Service) remindOf(ctx context.Context, rules Rules, o seckillevent.Opening, w messagedb.NotifyMessageWalk, until time.Time) error {
	if !w.At.Equal(o.OpensAt) {
		w = messagedb.NotifyMessageWalk{Name: walkOf(o), At: o.OpensAt}
	}
	now := s.now()
	for !w.Done {
		users, err := s.deps.Reserved.ReservedBy(ctx, o.ItemID, w.AfterUser, s.page)
		if err != nil {
			return failed("read reservations", err)
		}
		if w.Done = len(users) < int(s.page); len(users) > 0 {
			w.AfterUser = users[len(users)-1]
		}
		drafts := make([]draft, len(users))
		for i, user := range users {
			drafts[i] = draft{
				user: user, about: sessionOf(o), facts: facts{Item: o.Title, At: o.OpensAt}, from: spread(user, now, until), expire: until,
			}
		}
		if err := s.saved(ctx, rules, Reminder, drafts, w); err != nil {
			return err
		}
		if !w.Done {
			_ = app.Sleep(ctx, s.pause) // the next read says so if ctx ends
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
	const name = "deadline"
	walks, err := s.walks(ctx, name)
	if err != nil {
		return err
	}
	w, now := walks[name], s.now()
	if w.Name = name; w.At.Before(now) {
		w.At, w.AfterNo = now, ids.ID{} // those before are over
	}
	for more := true; more; {
		orders, err := s.deps.Orders.Unpaid(ctx, w.At, w.AfterNo, now.Add(rule.ahead()), int(s.page))
		if err != nil {
			return failed("read unpaid orders", err)
		}
		if more = len(orders) == int(s.page); len(orders) == 0 {
			return nil
		}
		last := orders[len(orders)-1]
		w.At, w.AfterNo = last.PayDeadline, last.No
		if err := s.saved(ctx, rules, Deadline, warnings(orders, rule.ahead()), w); err != nil {
			return err
		}
	}
	return nil
}

// warnings are the drafts about unpaid orders.
func warnings(orders []orderevent.Order, ahead time.Duration) []draft {
	return aboutOrders(orders, func(o *orderevent.Order, d *draft) bool {
		d.facts.At, d.expire = o.PayDeadline, o.PayDeadline
		return o.PayDeadline.Sub(o.CreatedAt) >= 2*ahead
	})
}

// walks reads how far those of the walks have come that have begun.
func (s *Service) walks(ctx context.Context, names ...string) (map[string]messagedb.NotifyMessageWalk, error) {
	found := make(map[string]messagedb.NotifyMessageWalk, len(names))
	if len(names) == 0 {
		return found, nil
	}
	rows, err := messagedb.New(s.deps.DB).Walks(ctx, names)
	for _, w := range rows {
		found[w.Name] = w
	}
	return found, failed("read the walks", err)
}

// saved makes messages together with the place of their walk.
func (s *Service) saved(ctx context.Context, rules Rules, k Kind, drafts []draft, w messagedb.NotifyMessageWalk) error {
	made, err := s.prepare(ctx, rules, k, drafts)
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

// forgetOld deletes some of what has ended long ago, and counts what waits.
func (s *Service) forgetOld(ctx context.Context) error {
	q := messagedb.New(s.deps.DB)
	old := messagedb.ForgetOldParams{Before: ids.Lowest(s.now().Add(-s.deps.Keep)), Most: forgetAtMost}
	if err := errors.Join(q.ForgetAsks(ctx, forgetAtMost), q.ForgetWalks(ctx), q.ForgetOld(ctx, old)); err != nil {
		return failed("delete what is old", err)
	}
	waiting, err := q.Waiting(ctx)
	if err == nil {
		s.waiting.Set(float64(waiting))
	}
	return failed("count what waits", err)
}
