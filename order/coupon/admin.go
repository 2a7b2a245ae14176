package coupon

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

var (
	errNotActive = fault.New(fault.Conflict, "coupon-not-active",
		fault.T("Coupons of this kind are not being issued", "该优惠券未在发放"),
		fault.T("Activate the kind of coupon first.", "请先启用该优惠券。"),
		fault.T("Activate this coupon first, or choose an active one.", "请先启用该优惠券，或选择其他已启用的优惠券。"))
	errFixed = fault.New(fault.Conflict, "coupon-terms-fixed",
		fault.T("The terms of an active coupon are fixed", "已生效的优惠券条款不可修改"),
		fault.T("Once a kind was active, its name, total, per_user and claim window can be changed, and nothing "+
			"else; nor can it be deleted. Stop it and create another.",
			"启用过的优惠券只能修改名称、总量、每人限领和领取时间，也不能删除。请停用后另建一张。"),
		fault.T("Stop this coupon and create another with the new terms.", "请停用该优惠券，再按新规则新建一张。"))
	errFewer = fault.Plain(fault.Invalid,
		fault.T("total must not be less than the number of coupons that were issued, and per_user not less than it was.",
			"总量不能少于已发放数量，每人限领不能调低。"))
)

// couponKind is a kind of coupon as operators see it.
type couponKind struct {
	ID     string `json:"id" example:"12"`
	Status string `json:"status" enum:"draft,active,stopped" doc:"draft: can be edited; active: issued and claimed; stopped: no more are issued, those that were stay valid"`
	Terms
	Issued     int64            `json:"issued" doc:"Coupons that users were issued"`
	Locked     int64            `json:"locked" doc:"Orders that wait for a payment with it"`
	Used       int64            `json:"used" doc:"Orders that were paid with it"`
	Borne      int64            `json:"borne" doc:"Orders that were paid late with a coupon which served another order by then: the shop gave the discount twice"`
	RecalledAt string           `json:"recalled_at,omitempty" format:"date-time" doc:"Coupons that were issued until then were recalled: those that no order had or has serve no further order"`
	Discount   orderevent.Money `json:"discount" doc:"What it took off the orders that were paid, those in borne included"`
	Version    int32            `json:"version" doc:"Send it back with an edit"`
	CreatedAt  string           `json:"created_at" format:"date-time"`
	UpdatedAt  string           `json:"updated_at" format:"date-time"`
}

func viewKind(r coupondb.KindsRow) couponKind {
	k := &r.OrdersCouponKind
	v := couponKind{
		ID: httpx.FormatID(k.ID), Status: k.Status, Terms: termsOf(k), Issued: k.Issued, Locked: r.Locked, Used: r.Used, Borne: r.Borne,
		Discount: orderevent.Money{Amount: r.Discount, Currency: k.Currency},
		Version:  k.Version, CreatedAt: httpx.Moment(k.CreatedAt), UpdatedAt: httpx.Moment(k.UpdatedAt),
	}
	if k.RecalledAt != nil {
		v.RecalledAt = httpx.Moment(*k.RecalledAt)
	}
	return v
}

// awayCoupons is what a caller reads while Postgres is away.
var awayCoupons = fault.T("Coupons cannot be reached right now. Try again in a moment.", "暂时无法访问优惠券，请稍后重试。")

func (s *Service) adminRoutes(rt *httpx.Router) {
	const base = "/api/v1/admin/coupons"
	read := func(path, id, summary string) httpx.Op {
		return httpx.Op{Method: http.MethodGet, Path: base + path, ID: id, Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Summary: summary, Away: awayCoupons}
	}
	change := func(method, path, id, audit, summary string, refuses ...*fault.Error) httpx.Op {
		return httpx.Op{Method: method, Path: base + path, ID: id, Tag: "operator", Role: auth.Operator, Audit: audit, Summary: summary, Refuses: refuses, Away: awayCoupons}
	}
	httpx.Register(rt.API, read("", "list-coupon-kinds", "Kinds of coupons with their figures, newest first"), s.list)
	httpx.Register(rt.API, read("/{id}", "get-coupon-kind", "A kind of coupon with its figures"), s.get)
	create := change(http.MethodPost, "", "create-coupon-kind", "coupon.create", "Create a kind of coupon, as a draft")
	create.Status = http.StatusCreated
	httpx.Register(rt.API, create, s.create)
	edit := change(http.MethodPut, "/{id}", "edit-coupon-kind", "coupon.edit", "Change a kind of coupon", fault.ErrStale, errFixed)
	edit.Description = "Send all terms, also those that stay. Once the kind was active, only name, total, per_user and the claim window may differ."
	httpx.Register(rt.API, edit, s.edit)
	remove := change(http.MethodDelete, "/{id}", "delete-coupon-kind", "coupon.delete", "Delete a draft", errFixed)
	remove.Status = http.StatusNoContent
	httpx.Register(rt.API, remove, s.remove)
	for _, to := range []struct{ path, id, summary, status string }{
		{"/{id}/activate", "activate-coupon-kind", "Issue coupons of this kind, and let shoppers claim them", active},
		{"/{id}/stop", "stop-coupon-kind", "Issue no more coupons of this kind; those that were issued stay valid", stopped},
	} {
		move := change(http.MethodPost, to.path, to.id, "coupon."+to.status, to.summary, errNotActive)
		move.NoKey = httpx.SetsState
		httpx.Register(rt.API, move, func(ctx context.Context, in *KindInput) (*httpx.Output[couponKind], error) {
			return s.move(ctx, in, to.status)
		})
	}
	issue := change(http.MethodPost, "/{id}/issue", "issue-coupons", "coupon.issue", "Issue coupons to a list of users", errNotActive, errGone)
	issue.Description = "All of them are issued, or none. Users who were issued `each` coupons of the kind already are left alone, " +
		"so that repeating the request is harmless."
	issue.NoKey, issue.MaxBodyBytes, issue.Scope = httpx.SetsState, maxIssueBytes, auth.OrdersWrite
	httpx.Register(rt.API, issue, s.issue)
	httpx.Register(rt.API, read("/{id}/issued", "list-issued-coupons", "A user's coupons of a kind, newest first"), s.issued)
	const recalling = "A recalled coupon serves no further order. One that is locked or used keeps serving its order, and does not come back " +
		"when that order is closed or refunded. A recall cannot be taken back: issue another kind."
	all := change(http.MethodPost, "/{id}/recall", "recall-coupon-kind", "coupon.recall", "Recall all coupons of a kind, and stop it", errNotActive)
	all.Description, all.NoKey = recalling, httpx.SetsState
	httpx.Register(rt.API, all, s.recallKind)
	one := change(http.MethodPost, "/{id}/issued/{coupon}/recall", "recall-coupon", "coupon.recall-one", "Recall one coupon")
	one.Description, one.NoKey, one.Scope = recalling, httpx.SetsState, auth.OrdersWrite
	httpx.Register(rt.API, one, s.recallOne)
}

// KindInput names a kind in a path. It is exported for huma, as Terms is.
type KindInput struct {
	ID string `path:"id" doc:"The kind's id"`
}

type listInput struct {
	httpx.ChangesInput
	Status string `query:"status" enum:"draft,active,stopped" doc:"Only kinds in this state"`
}

func (s *Service) list(ctx context.Context, in *listInput) (*httpx.PageOutput[couponKind], error) {
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]coupondb.KindsRow, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		ctx, done, err := s.reading(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		rows, err := coupondb.New(s.db).Kinds(ctx, coupondb.KindsParams{Before: before, Status: in.Status, Most: int32(p.Ask())}) //nolint:gosec // a page is small
		if err != nil {
			return nil, fmt.Errorf("coupon: list kinds: %w", err)
		}
		return rows, nil
	}, func(r coupondb.KindsRow) time.Time { return r.OrdersCouponKind.UpdatedAt }, viewKind,
		func(r coupondb.KindsRow) string { return httpx.FormatID(r.OrdersCouponKind.ID) })
}

func (s *Service) get(ctx context.Context, in *KindInput) (*httpx.Output[couponKind], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	ctx, done, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	row, err := s.read(ctx, id)
	return httpx.Answered(viewKind(row), err)
}

// read returns a kind with its figures. Lists and exports cannot keep an operator from stopping one.
func (s *Service) read(ctx context.Context, id int64) (none coupondb.KindsRow, err error) {
	rows, err := coupondb.New(s.db).Kinds(ctx, coupondb.KindsParams{ID: id, Most: 1})
	if err != nil {
		return none, fmt.Errorf("coupon: read kind %d: %w", id, err)
	}
	if len(rows) == 0 {
		return none, errNoKind
	}
	return rows[0], nil
}

type createInput struct {
	idempotency.Header
	Body struct{ Terms } `nameHint:"CouponTerms"`
}

func (s *Service) create(ctx context.Context, in *createInput) (*httpx.Output[couponKind], error) {
	k, err := in.Body.row()
	if err != nil {
		return nil, err
	}
	return answered(ctx, s, func(tx pgx.Tx) (couponKind, error) {
		return idempotency.Once(ctx, tx, in.Key, "coupon.create", in.Body, func() (none couponKind, err error) {
			made, err := coupondb.New(tx).InsertKind(ctx, coupondb.InsertKindParams{
				Name: k.Name, Currency: k.Currency, AmountOff: k.AmountOff, PercentOff: k.PercentOff, MaxOff: k.MaxOff, Threshold: k.Threshold,
				ActivityIds: k.ActivityIds, ItemIds: k.ItemIds, ValidFrom: k.ValidFrom, ValidUntil: k.ValidUntil, ValidDays: k.ValidDays,
				Total: k.Total, PerUser: k.PerUser, ClaimFrom: k.ClaimFrom, ClaimUntil: k.ClaimUntil,
				IssueOn: k.IssueOn, ReservedActivityIds: k.ReservedActivityIds, ReservedItemIds: k.ReservedItemIds,
			})
			if err != nil {
				return none, fmt.Errorf("coupon: insert kind: %w", err)
			}
			out := viewKind(coupondb.KindsRow{OrdersCouponKind: made})
			return out, audit.Record(ctx, tx, "coupon.create", subject(made.ID), audit.Change{After: recorded(&made)})
		})
	})
}

// answered runs do in a transaction and answers with what it returns.
func answered[B any](ctx context.Context, s *Service, do func(tx pgx.Tx) (B, error)) (*httpx.Output[B], error) {
	var body B
	err := pg.InTx(ctx, s.db, func(tx pgx.Tx) (err error) {
		body, err = do(tx)
		return err
	})
	return httpx.Answered(body, err)
}

type editInput struct {
	KindInput
	Body struct {
		Version int32 `json:"version" minimum:"1" doc:"The version that was read; the edit is refused if the database has another one"`
		Terms
	} `nameHint:"CouponKindEdit"`
}

func (s *Service) edit(ctx context.Context, in *editInput) (*httpx.Output[couponKind], error) {
	k, err := in.Body.row()
	if err != nil {
		return nil, err
	}
	return s.change(ctx, &in.KindInput, "coupon.edit", func(have *coupondb.OrdersCouponKind) (bool, error) {
		switch {
		case have.Version != in.Body.Version:
			return false, fault.ErrStale.With("version", have.Version)
		case have.Status != draft && !sameTerms(have, &k):
			return false, errFixed
		case k.Total < have.Issued || have.Status != draft && k.PerUser < have.PerUser:
			return false, errFewer
		}
		k.ID, k.Status = have.ID, have.Status
		*have = k
		return true, nil
	})
}

// move makes a kind active or stopped; a repetition changes nothing.
func (s *Service) move(ctx context.Context, in *KindInput, status string) (*httpx.Output[couponKind], error) {
	return s.change(ctx, in, "coupon."+status, func(k *coupondb.OrdersCouponKind) (bool, error) {
		if k.Status == draft && status == stopped {
			return false, errNotActive
		}
		changed := k.Status != status
		k.Status = status
		return changed, nil
	})
}

// change edits a kind in a transaction with its audit record; edit returns whether
// there is a change.
func (s *Service) change(ctx context.Context, in *KindInput, action string, edit func(*coupondb.OrdersCouponKind) (bool, error)) (*httpx.Output[couponKind], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	row, err := s.read(ctx, id) // without the lock, for which every issue of the kind waits
	if err != nil {
		return nil, err
	}
	return answered(ctx, s, func(tx pgx.Tx) (none couponKind, err error) {
		q := coupondb.New(tx)
		k, _, err := lockKind(ctx, q, id)
		if err != nil {
			return none, err
		}
		row.OrdersCouponKind = k
		before := recorded(&k)
		changed, err := edit(&k)
		if err != nil {
			return none, err
		}
		if changed {
			row.OrdersCouponKind, err = q.UpdateKind(ctx, coupondb.UpdateKindParams{
				ID: id, Name: k.Name, Status: k.Status, Currency: k.Currency, AmountOff: k.AmountOff, PercentOff: k.PercentOff, MaxOff: k.MaxOff,
				Threshold: k.Threshold, ActivityIds: k.ActivityIds, ItemIds: k.ItemIds, ValidFrom: k.ValidFrom, ValidUntil: k.ValidUntil,
				ValidDays: k.ValidDays, Total: k.Total, PerUser: k.PerUser, ClaimFrom: k.ClaimFrom, ClaimUntil: k.ClaimUntil,
				IssueOn: k.IssueOn, ReservedActivityIds: k.ReservedActivityIds, ReservedItemIds: k.ReservedItemIds,
			})
			if err != nil {
				return none, fmt.Errorf("coupon: change kind %d: %w", id, err)
			}
			if err := audit.Record(ctx, tx, action, subject(id), audit.Change{Before: before, After: recorded(&k)}); err != nil {
				return none, err
			}
		}
		return viewKind(row), nil
	})
}

func (s *Service) remove(ctx context.Context, in *KindInput) (*struct{}, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoKind.Because(err)
	}
	return nil, pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		q := coupondb.New(tx)
		k, _, err := lockKind(ctx, q, id)
		if err != nil {
			return err
		}
		if k.Status != draft {
			return errFixed
		}
		if err := q.DeleteKind(ctx, id); err != nil {
			return fmt.Errorf("coupon: delete kind %d: %w", id, err)
		}
		return audit.Record(ctx, tx, "coupon.delete", subject(id), audit.Change{Before: recorded(&k)})
	})
}

// kindState is what the audit log keeps of a kind before and after a change.
type kindState struct {
	Status string `json:"status"`
	Terms
}

func recorded(k *coupondb.OrdersCouponKind) kindState { return kindState{k.Status, termsOf(k)} }

// subject names a kind in the audit log.
func subject(id int64) string { return "coupon " + httpx.FormatID(id) }
