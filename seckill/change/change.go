package change

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
	"stampede/seckill/seckillevent"
)

// change is one operator action while its transaction is open: the rows it may
// touch, and the work left for after the commit. Lock order: the activity's row
// first, then stock rows through inventory. Code that holds a stock row never
// locks an activity.
type change struct {
	s  *Service
	tx pgx.Tx
	q  *seckilldb.Queries

	activity seckilldb.SeckillActivity // current state, after every step of the change
	at       time.Time                 // the database's clock, which all rules about time use
	phase    plan.Phase

	announce bool             // shoppers see the activity: views and catalogues are stale
	apply    []int64          // items whose stock row changed and must be applied to Redis
	load     []int64          // items to load again
	details  []int64          // items whose details changed
	forget   []inventory.Item // deleted items, to be removed from Redis
}

// afterCommit bounds the work that a request still does after its change is
// committed. Work that does not finish in time is not lost: the event in the
// outbox triggers the same work, and the preheat finds owed Loads.
const afterCommit = 5 * time.Second

// transact runs fn in a transaction, then carries the change to Redis and to
// this instance's catalogue, so that the operator's next request shows it.
// Other instances learn of it from the event committed with it.
func (s *Service) transact(ctx context.Context, fn func(ctx context.Context, c *change) error) error {
	var c change
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		c = change{s: s, tx: tx, q: seckilldb.New(tx)}
		if err := fn(ctx, &c); err != nil {
			return err
		}
		return c.prepareCommit(ctx)
	})
	if err != nil {
		return err
	}
	c.carryOut(context.WithoutCancel(ctx))
	return nil
}

// lock locks the activity for this change and refuses the action if the state
// machine does.
func (c *change) lock(ctx context.Context, activityID int64, act plan.Action) error {
	if err := c.take(ctx, activityID); err != nil {
		return err
	}
	if act == plan.ActEditOrCorrect {
		if plan.Permit(c.phase, c.activity.Paused, plan.ActCorrect) == nil {
			return nil
		}
		act = plan.ActEdit
	}
	return plan.Permit(c.phase, c.activity.Paused, act)
}

// lockTree does the same and reads the whole activity.
func (c *change) lockTree(ctx context.Context, activityID int64, act plan.Action) (*plan.Activity, error) {
	if err := c.lock(ctx, activityID, act); err != nil {
		return nil, err
	}
	return plan.Tree(ctx, c.q, c.activity)
}

// take locks the activity's row and records its phase.
func (c *change) take(ctx context.Context, activityID int64) error {
	locked, err := c.q.LockActivity(ctx, activityID)
	if err != nil {
		return plan.OrNotFound(err, plan.ErrNoActivity, "lock activity")
	}
	// The clock may have moved the activity on before the lifecycle worker came to it.
	if _, err := advance(ctx, c.tx, activityID); err != nil {
		return err
	}
	if c.activity, err = c.q.Activity(ctx, activityID); err != nil {
		return fmt.Errorf("change: read activity: %w", err)
	}
	c.at, c.phase = locked.At, plan.PhaseOf(&c.activity, locked.FirstOpening, locked.At)
	return nil
}

// published reports whether shoppers can see the activity, so that a change to
// it has to reach stock, views and catalogues.
func (c *change) published() bool { return c.phase != plan.PhaseDraft }

// touch marks the activity as changed after a change to one of its sessions or
// items.
func (c *change) touch(ctx context.Context) error {
	c.announce = c.announce || c.published()
	if err := c.q.TouchActivity(ctx, c.activity.ID); err != nil {
		return fmt.Errorf("change: touch activity: %w", err)
	}
	return nil
}

func (c *change) record(ctx context.Context, name, subject string, did audit.Change) error {
	return audit.Record(ctx, c.tx, name, subject, did)
}

// prepareCommit adds to the transaction the work that must not be lost.
func (c *change) prepareCommit(ctx context.Context) error {
	if len(c.load) > 0 {
		if err := c.q.WantLoad(ctx, c.load); err != nil {
			return fmt.Errorf("change: want load: %w", err)
		}
	}
	if !c.announce {
		return nil
	}
	changed := seckillevent.Changed{ActivityID: c.activity.ID}
	for _, item := range c.forget {
		changed.Forgotten = append(changed.Forgotten, item.ID)
	}
	_, err := outbox.Append(ctx, c.tx, seckillevent.SubjectChanged, changed)
	return err
}

// carryOut does immediately what the committed event would do a moment later. A
// failure is a delay, not a loss, so it is logged and not reported to the
// operator, whose change is committed.
func (c *change) carryOut(ctx context.Context) {
	if !c.announce {
		return
	}
	s := c.s
	s.deps.Outbox.Wake()
	ctx, cancel := context.WithTimeout(ctx, afterCommit)
	defer cancel()
	for _, item := range c.forget {
		if err := s.deps.Stock.Forget(ctx, item); err != nil {
			s.deps.Log.WarnContext(ctx, "deleted item not removed from redis, will be retried", "item_id", item.ID, "error", err)
		}
	}
	for _, id := range c.apply {
		if err := s.deps.Stock.Apply(ctx, id); err != nil {
			s.deps.Log.WarnContext(ctx, "stock change not applied to redis, will be retried", "item_id", id, "error", err)
		}
	}
	if err := s.deps.Browse.ForgetDetails(ctx, c.details...); err != nil {
		s.deps.Log.WarnContext(ctx, "item details not forgotten, will expire", "activity_id", c.activity.ID, "error", err)
	}
	if err := s.deps.Browse.Sync(ctx, c.activity.ID); err != nil {
		s.deps.Log.WarnContext(ctx, "views not updated, will be retried", "activity_id", c.activity.ID, "error", err)
	}
	if err := s.deps.Catalogue.Refresh(ctx); err != nil {
		s.deps.Log.WarnContext(ctx, "catalogue not refreshed, will be retried", "activity_id", c.activity.ID, "error", err)
	}
	for _, id := range c.load {
		s.deps.Catalogue.Heal(id)
	}
}
