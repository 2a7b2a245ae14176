package inventory

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// ErrReconciling means that this process is reconciling already.
var ErrReconciling = fault.Plain(fault.Unavailable,
	fault.T("A reconciliation is under way. Try again when it has ended.", "正在对账，请等待结束后重试。"))

// The states of a difference's repair.
const (
	repairDone     = "done"
	repairPossible = "possible"
	repairNone     = "none" // it needs a decision
)

// Difference is one disagreement between Redis and Postgres about an item, or
// within one of them.
type Difference struct {
	ItemID  string `json:"item_id" example:"17"`
	Kind    string `json:"kind" doc:"What differs" example:"ended" enum:"ended,uncommitted,retake,withdrawn,written,behind,buyer,no-buyer,paid,unknown,hold,unmarked,quantity,epoch-ahead,rev-ahead,not-loaded,difference,committed,redis,live,available,equation,retaken"`
	Subject string `json:"subject" doc:"The item, or the order's number" example:"order 0190a1b2c3d47e5f8091a2b3c4d5e6f7"`
	Detail  string `json:"detail" doc:"One sentence with the figures" example:"Item 17: user 9 still holds 1 units in Redis, the order is closed."`
	Cause   string `json:"cause,omitempty" doc:"Why, where that can be known" example:"The event of the order's end has not been applied."`
	Repair  string `json:"repair" enum:"done,possible,none" doc:"none: it is not provably safe and needs an operator's decision"`
}

// Reconciliation is the result of Reconcile.
type Reconciliation struct {
	Items       int          `json:"items" doc:"How many items were compared"`
	Differences []Difference `json:"differences" doc:"By item, kind and subject"`
}

// kindOf says of each kind of difference what causes it, as far as that can be
// known, and whether the order in Postgres proves its repair.
var kindOf = map[string]struct {
	cause string
	safe  bool
}{
	"ended":       {"The event of the order's end has not been applied.", true},
	"uncommitted": {"The event of the payment has not been applied.", true},
	"withdrawn":   {"An operator's move to the backup was not committed.", true},
	"retake":      {"The event of a late payment has not been applied.", true},
	"written":     {"The order writer ended between its commit and its note in Redis.", true},
	"behind":      {"An operator's change has not been applied.", true},
	"buyer":       {"", true},
	"no-buyer":    {"", true},
	"paid":        {"Postgres has lost commits, or was restored.", false},
	"unknown":     {"Postgres has lost commits, or was restored.", false},
	"epoch-ahead": {"Postgres has lost commits, or was restored.", false},
	"rev-ahead":   {"Postgres has lost commits, or was restored.", false},
	"unmarked":    {"Redis has lost writes without a restart.", false},
	"not-loaded":  {"The item waits for its Load.", false},
}

// differences are all findings on an item that Redis may have keys of.
func (c *cut) differences() []finding {
	found := slices.Concat(c.oversold(), c.disagreements(), c.orphans())
	for i, sh := range c.shards {
		if !sh.loaded {
			// A closed item is not loaded again: what returns to it returns in Postgres.
			if c.at.Before(c.stocks[i].ClosesAt) {
				found = append(found, about(c.itemID, "not-loaded", "Redis does not decide on the item."))
			}
			continue
		}
		found = append(found, sh.state.ahead(c.itemID, c.stocks[i])...)
		if sh.state.Rev < c.stocks[i].Rev {
			found = append(found, about(c.itemID, "behind", "Redis has change %d of the item, Postgres %d.", sh.state.Rev, c.stocks[i].Rev))
		}
	}
	return found
}

// ahead reports a state that knows more than Postgres: Postgres has lost commits.
// The next health check has such an item loaded again.
func (st State) ahead(itemID int64, row Stock) (found []finding) {
	if st.Epoch > row.Epoch {
		found = append(found, about(itemID, "epoch-ahead", "Redis has the item's Load %d, Postgres only %d: Postgres has lost commits.", st.Epoch, row.Epoch))
	}
	if st.Rev > row.Rev {
		found = append(found, about(itemID, "rev-ahead", "Redis has change %d of the item, Postgres only %d: Postgres has lost commits.", st.Rev, row.Rev))
	}
	return found
}

// Reconcile compares an item, or with 0 every item that Redis has keys of, with
// its orders in Postgres, and returns every difference that lasts for
// proof.Recheck. With repair it brings to Redis what an order proves, raises an
// alarm for the rest, and records both. Run twice it gives the same answer. It
// reads whole items.
func (s *Service) Reconcile(ctx context.Context, itemID int64, repair bool) (Reconciliation, error) {
	if !s.reconciling.TryLock() {
		return Reconciliation{}, ErrReconciling
	}
	defer s.reconciling.Unlock()
	q := inventorydb.New(s.deps.DB)
	rows, err := q.StockOfItem(ctx, itemID)
	if itemID == 0 {
		rows, err = q.LoadedStock(ctx)
	}
	if err != nil {
		return Reconciliation{}, fmt.Errorf("inventory: read stock: %w", err)
	}
	if itemID != 0 && len(rows) == 0 {
		return Reconciliation{}, ErrNoStock
	}
	return s.reconcile(ctx, stocksOf(rows), repair)
}

func (s *Service) reconcile(ctx context.Context, stocks []Stock, repair bool) (Reconciliation, error) {
	done := Reconciliation{Differences: []Difference{}}
	found, err := s.lasting(ctx, stocks, (*cut).differences)
	if err != nil {
		return done, err
	}
	for shards := range perItem(stocks) {
		done.Items++
		here := 0
		for here < len(found) && found[here].itemID == shards[0].ItemID {
			here++
		}
		list := differencesOf(found[:here])
		found = found[here:]
		if repair && len(list) > 0 {
			if err := s.repair(ctx, shards, list); err != nil {
				return done, err
			}
		}
		done.Differences = append(done.Differences, list...)
	}
	return done, nil
}

func differencesOf(found []finding) []Difference {
	list := make([]Difference, len(found))
	for i, f := range found {
		kind := kindOf[f.kind]
		list[i] = Difference{ItemID: strconv.FormatInt(f.itemID, 10), Kind: f.kind, Subject: f.subject, Detail: f.detail, Cause: kind.cause, Repair: repairNone}
		if kind.safe {
			list[i].Repair = repairPossible
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	})
	return list
}

// repair repairs an item's differences as a comparison does, and marks in list
// those that are gone.
func (s *Service) repair(ctx context.Context, shards []Stock, list []Difference) error {
	itemID := shards[0].ItemID
	if slices.ContainsFunc(list, func(d Difference) bool { return d.Repair == repairPossible }) {
		if err := s.Apply(ctx, itemID); err != nil {
			return err
		}
		for _, st := range shards {
			s.compared.Delete(st.item())
			if _, _, err := s.compareOrders(ctx, st.item(), 0); err != nil {
				return err
			}
		}
		after, err := s.readCut(ctx, itemID)
		if err != nil {
			return err
		}
		left := map[string]bool{}
		for _, f := range after.differences() {
			left[f.key()] = true
		}
		for i, d := range list {
			if d.Repair == repairPossible && !left[d.Kind+" "+d.Subject] {
				list[i].Repair = repairDone
			}
		}
	}
	found, open := map[string]int{}, map[string]int{}
	detail := ""
	for _, d := range list {
		found[d.Kind]++
		if d.Repair == repairDone {
			continue
		}
		open[d.Kind]++
		detail = cmp.Or(detail, d.Detail)
	}
	if err := s.record(ctx, itemID, found, open); err != nil || len(open) == 0 {
		return err
	}
	return alarmRedisDiffers.Raise(ctx, s.deps.DB, ItemSubject(itemID), detail)
}

// record adds a reconciliation to the audit log: how many differences of each kind were
// found, and are open.
func (s *Service) record(ctx context.Context, itemID int64, found, open map[string]int) error {
	return pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, "item.reconcile", ItemSubject(itemID), audit.Change{Before: found, After: open})
	})
}

// Open counts the differences that are not repaired.
func (r Reconciliation) Open() (n int) {
	for _, d := range r.Differences {
		if d.Repair != repairDone {
			n++
		}
	}
	return n
}

// Next is what an operator does about the open differences.
func (r Reconciliation) Next() string {
	if slices.ContainsFunc(r.Differences, func(d Difference) bool { return d.Repair == repairPossible }) {
		return "repeat the command with --repair, which repairs those marked possible; what then remains needs your decision"
	}
	return "no order proves how to repair them; their causes are above, and the alarm redis-differs says what to do"
}

// Write prints the differences for a person.
func (r Reconciliation) Write(w io.Writer) error {
	var b strings.Builder
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "%8s  %-11s  repair %-8s  %s: %s\n", d.ItemID, d.Kind, d.Repair, d.Subject, d.Detail)
		if d.Cause != "" {
			fmt.Fprintf(&b, "%10s%s\n", "", d.Cause)
		}
	}
	fmt.Fprintf(&b, "%d items compared, %d differences, %d of them open.\n", r.Items, len(r.Differences), r.Open())
	_, err := io.WriteString(w, b.String())
	return err
}
