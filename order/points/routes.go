package points

import (
	"context"
	"fmt"
	"net/http"

	"stampede/order/points/internal/pointsdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

var (
	errNoUser = fault.Plain(fault.NotFound,
		fault.T("There is no user with this id: ids are positive decimal numbers.", "没有该编号的用户：编号为正整数。"))
	// away is what a caller reads while Postgres is away.
	away = fault.T("Points cannot be reached right now. Try again in a moment.", "暂时无法查询积分，请稍后重试。")
)

// pointsEntry is an entry of a user's ledger.
type pointsEntry struct {
	EntryNo string `json:"entry_no" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f66"`
	Kind    string `json:"kind" enum:"earned,taken_back,given_back" doc:"earned: the order was paid; taken_back: by a refund of it; given_back: the provider undid a refund"`
	Points  int64  `json:"points" doc:"Negative for taken_back" example:"99"`
	OrderNo ids.ID `json:"order_no" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	At      string `json:"at" format:"date-time"`
}

// pointsAccount is a user's balance with a page of the entries behind it.
type pointsAccount struct {
	Balance int64 `json:"balance" doc:"The sum of all entries; nothing keeps it from lying below zero" example:"120"`
	httpx.Page[pointsEntry]
}

// Routes registers the routes of shoppers and of operators.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/me/points", ID: "list-points", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Away: away,
		Summary: "Your points: the balance, and what made it, newest first",
	}, func(ctx context.Context, in *httpx.PageInput) (*httpx.Output[pointsAccount], error) {
		return s.account(ctx, auth.From(ctx).UserID, *in)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/users/{id}/points", ID: "admin-list-points", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Away: away,
		Summary:     "A user's points: the balance, and what made it, newest first",
		Description: "Orders of an activity with a `points_rate` earn points when they are paid; refunds take them back in proportion. Guests have points too.",
		Refuses:     []*fault.Error{fault.ErrNotFound},
	}, s.ofUser)
}

type userInput struct {
	ID string `path:"id" doc:"The user's number" example:"1000042"`
	httpx.PageInput
}

func (s *Service) ofUser(ctx context.Context, in *userInput) (*httpx.Output[pointsAccount], error) {
	user, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, errNoUser.Because(err)
	}
	return s.account(ctx, user, in.PageInput)
}

func (s *Service) account(ctx context.Context, user int64, in httpx.PageInput) (*httpx.Output[pointsAccount], error) {
	before, err := in.BeforeNumber()
	if err != nil {
		return nil, err
	}
	ctx, done, err := s.deps.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	q := pointsdb.New(s.deps.DB)
	rows, err := q.EntriesOfUser(ctx, pointsdb.EntriesOfUserParams{
		Bucket: ids.Bucket(user), UserID: user, Before: before, Most: int32(in.Ask()), //nolint:gosec // a page is small
	})
	if err != nil {
		return nil, fmt.Errorf("points: list the entries of a user: %w", err)
	}
	balance, err := q.Balance(ctx, pointsdb.BalanceParams{Bucket: ids.Bucket(user), UserID: user})
	if err != nil {
		return nil, fmt.Errorf("points: read the balance of a user: %w", err)
	}
	page := httpx.PageOf(in, rows, func(r pointsdb.EntriesOfUserRow) pointsEntry {
		return pointsEntry{EntryNo: r.EntryNo.String(), Kind: r.Kind, Points: r.Points, OrderNo: r.OrderNo, At: httpx.Moment(r.At)}
	}, func(r pointsdb.EntriesOfUserRow) string { return r.EntryNo.String() })
	return httpx.Answer(pointsAccount{balance, page.Body}), nil
}
