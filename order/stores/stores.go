// Package stores keeps the shop's stores, at which shoppers pick orders up
// (到店取货). Operators manage them; a store that has closed is offered no more, and
// one that orders name can be closed but not deleted.
package stores

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/stores/internal/storesdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Service answers for the stores. Safe for concurrent use.
type Service struct{ db *pgxpool.Pool }

// New returns the stores in db.
func New(db *pgxpool.Pool) *Service { return &Service{db: db} }

var (
	errNoStore = fault.Plain(fault.NotFound, fault.T("There is no store with this id.", "没有该编号的门店。"))
	errInUse   = fault.New(fault.Conflict, "store-in-use", fault.T("Orders use this store", "有订单使用该门店"),
		fault.T("Orders are or were picked up at this store, so it cannot be deleted: set open to false instead.",
			"有订单使用过该门店，不能删除，请将其停用（open 设为 false）。"),
		fault.T("Set open to false to stop offering the store.", "请停用该门店，顾客将不能再选择。"))
	errBlank = fault.Plain(fault.Invalid,
		fault.T("A store's texts have no control characters or line breaks, and its name and address are not blank.",
			"门店信息不能含有控制字符或换行，名称和地址不能为空。"))
)

// Store is a store as shoppers see it.
type Store struct {
	ID string `json:"id" example:"3"`
	Place
}

// Place says where a store is and when it can be visited.
type Place struct {
	Name    string `json:"name" minLength:"1" maxLength:"120" example:"旗舰店"`
	Address string `json:"address" minLength:"1" maxLength:"300" example:"上海市黄浦区南京东路 1 号"`
	Phone   string `json:"phone,omitempty" maxLength:"32" example:"021-63220000"`
	Hours   string `json:"hours,omitempty" maxLength:"120" doc:"When it is open, in words" example:"10:00–22:00"`
}

// ManagedStore is a store as operators see it.
type ManagedStore struct {
	Store
	Open      bool   `json:"open" doc:"Whether shoppers may choose it"`
	Version   int32  `json:"version" doc:"Send it back with an edit"`
	CreatedAt string `json:"created_at" format:"date-time"`
	UpdatedAt string `json:"updated_at" format:"date-time"`
}

func placeOf(r storesdb.OrdersStore) Store {
	return Store{ID: httpx.FormatID(r.ID), Place: Place{Name: r.Name, Address: r.Address, Phone: r.Phone, Hours: r.Hours}}
}

func managed(r storesdb.OrdersStore) ManagedStore {
	return ManagedStore{Store: placeOf(r), Open: r.Open, Version: r.Version, CreatedAt: httpx.Moment(r.CreatedAt), UpdatedAt: httpx.Moment(r.UpdatedAt)}
}

// check trims a place and refuses texts that would not show as one line.
func (p *Place) check() error {
	for _, text := range []*string{&p.Name, &p.Address, &p.Phone, &p.Hours} {
		if *text = plaintext.Clean(*text); *text != "" && !plaintext.Legible(*text, false) {
			return errBlank
		}
	}
	if p.Name == "" || p.Address == "" {
		return errBlank
	}
	return nil
}

// Routes registers the routes.
func (s *Service) Routes(rt *httpx.Router) {
	const base = "/api/v1/admin/stores"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/stores", ID: "list-stores", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "The stores at which orders can be picked up",
	}, func(ctx context.Context, in *httpx.PageInput) (*httpx.PageOutput[Store], error) {
		return list(ctx, s, httpx.ChangesInput{PageInput: *in}, true, placeOf)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: base, ID: "admin-list-stores", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Summary: "All stores",
	}, func(ctx context.Context, in *httpx.ChangesInput) (*httpx.PageOutput[ManagedStore], error) {
		return list(ctx, s, *in, false, managed)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: base, ID: "create-store", Tag: "operator", Role: auth.Operator, Scope: auth.PlanWrite, Status: http.StatusCreated, Summary: "Add a store, which is open", Audit: "store.create",
	}, s.create)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: base + "/{id}", ID: "admin-get-store", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Summary: "One store",
	}, s.get)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: base + "/{id}", ID: "edit-store", Tag: "operator", Role: auth.Operator, Scope: auth.PlanWrite, Summary: "Change a store, open it or close it", Audit: "store.edit",
		Description: "Orders that name it show the new text.",
		Refuses:     []*fault.Error{fault.ErrStale},
	}, s.edit)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: base + "/{id}", ID: "delete-store", Tag: "operator", Role: auth.Operator, Scope: auth.PlanWrite, Status: http.StatusNoContent,
		Summary: "Delete a store that no order names", Audit: "store.delete",
		Refuses: []*fault.Error{errInUse},
	}, s.remove)
}

func list[T any](ctx context.Context, s *Service, in httpx.ChangesInput, onlyOpen bool, view func(storesdb.OrdersStore) T) (*httpx.PageOutput[T], error) {
	return httpx.PageOfChanges(in, func(p httpx.PageInput) ([]storesdb.OrdersStore, error) {
		after, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := storesdb.New(s.db).Stores(ctx, storesdb.StoresParams{OnlyOpen: onlyOpen, After: after, Most: int32(p.Ask())}) //nolint:gosec // a page is small
		if err != nil {
			return nil, fmt.Errorf("stores: list: %w", err)
		}
		return rows, nil
	}, func(r storesdb.OrdersStore) time.Time { return r.UpdatedAt }, view, func(r storesdb.OrdersStore) string { return httpx.FormatID(r.ID) })
}

// StoreInput is the id in a path. It is exported because huma only inspects exported
// embedded fields.
type StoreInput struct {
	ID string `path:"id" doc:"A decimal id" example:"3"`
}

func (s *Service) get(ctx context.Context, in *StoreInput) (*httpx.Output[ManagedStore], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	row, err := storesdb.New(s.db).Store(ctx, id)
	if err != nil {
		return nil, orMissing(err)
	}
	return httpx.Answer(managed(row)), nil
}

type createInput struct {
	Body Place
	idempotency.Header
}

func (s *Service) create(ctx context.Context, in *createInput) (*httpx.Output[ManagedStore], error) {
	p := in.Body
	if err := p.check(); err != nil {
		return nil, err
	}
	return s.change(ctx, "store.create", in.Key, p, func(q *storesdb.Queries) (before any, row storesdb.OrdersStore, err error) {
		row, err = q.CreateStore(ctx, storesdb.CreateStoreParams{Name: p.Name, Address: p.Address, Phone: p.Phone, Hours: p.Hours})
		return nil, row, err
	})
}

type editInput struct {
	StoreInput
	Body struct {
		Place
		Open    bool  `json:"open" doc:"Whether shoppers may choose it"`
		Version int32 `json:"version" minimum:"1" doc:"The version that was read"`
	} `nameHint:"StoreEdit"`
}

func (s *Service) edit(ctx context.Context, in *editInput) (*httpx.Output[ManagedStore], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	p := in.Body.Place
	if err := p.check(); err != nil {
		return nil, err
	}
	return s.change(ctx, "store.edit", "", nil, func(q *storesdb.Queries) (before any, row storesdb.OrdersStore, err error) {
		was, err := q.LockStore(ctx, id)
		if err == nil && was.Version != in.Body.Version {
			err = fault.ErrStale
		}
		if err != nil {
			return nil, row, err
		}
		row, err = q.UpdateStore(ctx, storesdb.UpdateStoreParams{
			ID: id, Name: p.Name, Address: p.Address, Phone: p.Phone, Hours: p.Hours, Open: in.Body.Open,
		})
		return managed(was), row, err
	})
}

// change makes a change of a store and its record in the audit log, once for a key.
func (s *Service) change(ctx context.Context, action, key string, request any, do func(*storesdb.Queries) (before any, row storesdb.OrdersStore, err error)) (*httpx.Output[ManagedStore], error) {
	var view ManagedStore
	err := pg.InTx(ctx, s.db, func(tx pgx.Tx) (err error) {
		view, err = idempotency.Once(ctx, tx, key, action, request, func() (ManagedStore, error) {
			before, row, err := do(storesdb.New(tx))
			if err != nil {
				return ManagedStore{}, orMissing(err)
			}
			return managed(row), audit.Record(ctx, tx, action, subject(row.ID), audit.Change{Before: before, After: managed(row)})
		})
		return err
	})
	return httpx.Answered(view, err)
}

func (s *Service) remove(ctx context.Context, in *StoreInput) (*struct{}, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, pg.InTx(ctx, s.db, func(tx pgx.Tx) error {
		q := storesdb.New(tx)
		was, err := q.LockStore(ctx, id)
		if err != nil {
			return orMissing(err)
		}
		if err := q.DeleteStore(ctx, id); pg.ViolatesForeignKey(err) {
			return errInUse
		} else if err != nil {
			return fmt.Errorf("stores: delete: %w", err)
		}
		return audit.Record(ctx, tx, "store.delete", subject(id), audit.Change{Before: managed(was)})
	})
}

// subject names a store in the audit log.
func subject(id int64) string { return "store " + httpx.FormatID(id) }

// orMissing turns "no row" into errNoStore.
func orMissing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoStore
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fmt.Errorf("stores: %w", err)
}
