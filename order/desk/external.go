package desk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/external"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Reference is what the shop's other systems keep with an order. It is exported because
// huma documents embedded fields of exported types only.
type Reference struct {
	ExternalID string            `json:"external_id,omitempty" maxLength:"64" pattern:"^[!-~]*$" patternDescription:"printable ASCII without spaces" doc:"What the shop's own system calls the order; several orders may have one. Shoppers do not see it" example:"SO-2026-11-0042"`
	Metadata   external.Metadata `json:"metadata,omitempty"`
}

func (s *Service) referenceRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPatch, Path: "/api/v1/admin/orders/{no}/external", ID: "change-order-external", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Change the external id or the metadata of an order", Audit: "order.external",
		Description: "What is left out stays; the order itself stays as it is, and shoppers see neither. `external_id` of GET /api/v1/admin/orders finds the order. " +
			"The metadata is erased with the order's details, the external id is kept.",
	}, s.referenceRoute)
}

type referenceInput struct {
	No   string         `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Body external.Patch `nameHint:"OrderReference"`
}

func (s *Service) referenceRoute(ctx context.Context, in *referenceInput) (*AdminDetail, error) {
	return s.after(ctx, in.No, func(no ids.ID) (orderevent.Order, error) { return s.refer(ctx, no, in.Body) })
}

// referred is what the audit log has of a reference. Nothing erases that log, and values of
// the metadata may name people.
type referred struct {
	ExternalID string   `json:"external_id"`
	Keys       []string `json:"metadata_keys"`
}

func (r Reference) referred() referred {
	return referred{r.ExternalID, append([]string{}, slices.Sorted(maps.Keys(r.Metadata))...)}
}

// refer changes the reference of an order. Repeating it changes nothing. It fails with
// not-found or invalid.
func (s *Service) refer(ctx context.Context, no ids.ID, patch external.Patch) (o orderevent.Order, err error) {
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		if o, err = lockAny(ctx, tx, no); err != nil {
			return err
		}
		before, err := referenceOf(ctx, tx, no)
		if err != nil {
			return err
		}
		after := before
		if patch.ExternalID != nil {
			after.ExternalID = *patch.ExternalID
		}
		if patch.Metadata != nil {
			after.Metadata = *patch.Metadata
		}
		var f fault.Flaws
		external.Check(&f, "body", pg.Null(after.ExternalID), after.Metadata)
		if err := f.Err(); err != nil {
			return err
		}
		if before.ExternalID == after.ExternalID && maps.Equal(before.Metadata, after.Metadata) {
			return nil
		}
		err = orderdb.New(tx).PutExternalReference(ctx, orderdb.PutExternalReferenceParams{
			Bucket: no.Bucket(), OrderNo: no, UserID: o.UserID, ExternalID: pg.Null(after.ExternalID), Metadata: after.Metadata.OrEmpty(),
		})
		if err != nil {
			return fmt.Errorf("order: write the external reference of %s: %w", no, err)
		}
		return audit.Record(ctx, tx, "order.external", "order "+no.String(), audit.Change{Before: before.referred(), After: after.referred()})
	})
	return o, err
}

// referenceOf reads the reference of an order, which is empty until it is put.
func referenceOf(ctx context.Context, db orderdb.DBTX, no ids.ID) (r Reference, err error) {
	row, err := orderdb.New(db).ExternalReferenceOf(ctx, orderdb.ExternalReferenceOfParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return r, fmt.Errorf("order: read the external reference of %s: %w", no, err)
	}
	if row.ExternalID != nil {
		r.ExternalID = *row.ExternalID
	}
	r.Metadata = row.Metadata
	return r, nil
}
