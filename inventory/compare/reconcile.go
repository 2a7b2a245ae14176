package compare

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/books"
	"stampede/inventory/stock"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// ErrReconciling means that this process is reconciling already.
var ErrReconciling = fault.Plain(fault.Unavailable,
	fault.T("A reconciliation is under way. Try again when it has ended.", "正在对账，请等待结束后重试。"))

// The states of a difference's repair.
const (
	RepairDone     = "done"
	RepairPossible = "possible"
	RepairNone     = "none" // it needs a decision
)

// Difference is one disagreement between Redis and Postgres about an item, or within one of them.
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

// kindOf says of each kind of difference what causes it, as far as that can be known, and whether the order in
// Postgres proves its repair.
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

// Reconcile compares an item, or with 0 every item that Redis has keys of, with its orders in Postgres, and returns
// every difference that lasts for proof.Recheck. With repair it brings to Redis what an order proves, raises an alarm
// for the rest, and records both. Run twice it gives the same answer. It reads whole items.
func (s *Service) Reconcile(ctx context.Context, itemID int64, repair bool) (Reconciliation, error) {
	if !s.reconciling.TryLock() {
		return Reconciliation{}, ErrReconciling
	}
	defer s.reconciling.Unlock()
	rows, err := stock.OfItem(ctx, s.DB, itemID)
	if itemID == 0 {
		rows, err = s.LoadedStock(ctx)
	}
	if err != nil {
		return Reconciliation{}, err
	}
	if itemID != 0 && len(rows) == 0 {
		return Reconciliation{}, stock.ErrNoStock
	}
	return s.reconcile(ctx, rows, repair, true)
}

func (s *Service) reconcile(ctx context.Context, stocks []stock.Row, repair, asked bool) (Reconciliation, error) {
	done := Reconciliation{Differences: []Difference{}}
	found, err := s.books.Lasting(ctx, stocks, (*books.Cut).Differences)
	if err != nil {
		return done, err
	}
	for shards := range stock.PerItem(stocks) {
		done.Items++
		here := 0
		for here < len(found) && found[here].ItemID == shards[0].ItemID {
			here++
		}
		list := differencesOf(found[:here])
		found = found[here:]
		if repair && len(list) > 0 {
			if err := s.repair(ctx, shards, list, asked); err != nil {
				return done, err
			}
		}
		done.Differences = append(done.Differences, list...)
	}
	return done, nil
}

func differencesOf(found []books.Finding) []Difference {
	list := make([]Difference, len(found))
	for i, f := range found {
		kind := kindOf[f.Kind]
		list[i] = Difference{ItemID: strconv.FormatInt(f.ItemID, 10), Kind: f.Kind, Subject: f.Subject, Detail: f.Detail, Cause: kind.cause, Repair: RepairNone}
		if kind.safe {
			list[i].Repair = RepairPossible
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Subject, b.Subject))
	})
	return list
}

// repair repairs an item's differences as a comparison does, and marks in list those that are gone. What an operator has
// asked for is always recorded; what a loop finds every minute only if it repaired something.
func (s *Service) repair(ctx context.Context, shards []stock.Row, list []Difference, asked bool) error {
	itemID := shards[0].ItemID
	if slices.ContainsFunc(list, func(d Difference) bool { return d.Repair == RepairPossible }) {
		if err := s.ledger.Apply(ctx, itemID); err != nil {
			return err
		}
		for _, st := range shards {
			s.Compared.Delete(st.Item())
			if _, _, err := s.CompareOrders(ctx, st.Item(), 0); err != nil {
				return err
			}
		}
		after, err := s.books.ReadCut(ctx, itemID)
		if err != nil {
			return err
		}
		left := map[string]bool{}
		for _, f := range after.Differences() {
			left[f.Key()] = true
		}
		for i, d := range list {
			if d.Repair == RepairPossible && !left[d.Kind+" "+d.Subject] {
				list[i].Repair = RepairDone
			}
		}
	}
	found, open := map[string]int{}, map[string]int{} // how many of each kind
	detail := ""
	for _, d := range list {
		found[d.Kind]++
		if d.Repair == RepairDone {
			continue
		}
		open[d.Kind]++
		detail = cmp.Or(detail, d.Detail)
	}
	if asked || !maps.Equal(found, open) {
		if err := pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
			return audit.Record(ctx, tx, "item.reconcile", stock.ItemSubject(itemID), audit.Change{Before: found, After: open})
		}); err != nil {
			return err
		}
	}
	if len(open) == 0 {
		return nil
	}
	return alarmRedisDiffers.Raise(ctx, s.DB, stock.ItemSubject(itemID), detail)
}

// Open counts the differences that are not repaired.
func (r Reconciliation) Open() (n int) {
	for _, d := range r.Differences {
		if d.Repair != RepairDone {
			n++
		}
	}
	return n
}

// Next is what an operator does about the open differences.
func (r Reconciliation) Next() string {
	if slices.ContainsFunc(r.Differences, func(d Difference) bool { return d.Repair == RepairPossible }) {
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

const reconcilePath = "/api/v1/admin/reconcile"

// Routes registers the operators' comparison of Redis with Postgres.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: reconcilePath, ID: "show-differences", Tag: "operator", Role: auth.Viewer,
		Summary: "What differs between Redis and the orders in Postgres",
		Description: "Compares one item, or every item that Redis has keys of, and returns what still differs after two seconds; work in flight is not a difference. " +
			"It reads whole items, so it takes some seconds for large ones, and one request at a time is answered.",
		Refuses: []*fault.Error{fault.ErrNotFound},
	}, func(ctx context.Context, in *struct {
		ItemID httpx.QueryID `query:"item_id" doc:"Only this item"`
	},
	) (*httpx.Output[Reconciliation], error) {
		return s.answerReconcile(ctx, in.ItemID.N, false)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: reconcilePath, ID: "reconcile", Tag: "operator", Role: auth.Operator,
		Summary: "Repair what differs between Redis and the orders in Postgres", Audit: "item.reconcile",
		NoKey: "it brings Redis to what Postgres says, and the repetition finds nothing to do",
		Description: "Repairs in Redis what an order in Postgres proves, and raises the alarm `redis-differs` for the rest. It is recorded in the audit log and may be repeated. " +
			"With `dry_run` it repairs nothing, and `repair` says what it would do.",
		Refuses: []*fault.Error{fault.ErrNotFound},
	}, func(ctx context.Context, in *struct {
		Body struct {
			ItemID string `json:"item_id,omitempty" doc:"Only this item" example:"17"`
			DryRun bool   `json:"dry_run,omitempty"`
		} `nameHint:"ReconcileRequest"`
	},
	) (*httpx.Output[Reconciliation], error) {
		var id int64
		if in.Body.ItemID != "" {
			var err error
			if id, err = httpx.ParseID(in.Body.ItemID); err != nil {
				return nil, err
			}
		}
		return s.answerReconcile(ctx, id, !in.Body.DryRun)
	})
}

func (s *Service) answerReconcile(ctx context.Context, itemID int64, repair bool) (*httpx.Output[Reconciliation], error) {
	r, err := s.Reconcile(ctx, itemID, repair)
	if err != nil {
		return nil, httpx.Unreachable(fault.T("The stores", "存储服务"), err)
	}
	return httpx.Answer(r), nil
}
