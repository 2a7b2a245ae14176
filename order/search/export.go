package search

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	// maxExports is how many exports an instance makes at a time: each holds a place among the
	// operators' requests, and one connection while it reads a batch.
	maxExports = 2
	// exportBatch is how many orders are read and written at a time: some 500 KiB of
	// memory.
	exportBatch = 1000
	// exportTries is how often an export tries to read a batch, a second apart: through a
	// restart of Postgres, or through the seconds in which others read all the lists they may.
	exportTries = 30
	// exportRest is for how many times the time of a batch an export rests after it: three
	// quarters of one core, and of one connection, belong to a sale that may be running.
	exportRest = 3
	// exportRestMost is the longest rest: a batch that took longer waited for Postgres or for
	// its client, and rested meanwhile.
	exportRestMost = time.Second
	// exportLogged is after how many rows a log line says how far an export is.
	exportLogged = 100_000
)

// The media types of exports.
const (
	csvType  = "text/csv"
	xlsxType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
)

// exportInput is an export, or the rest of one.
type exportInput struct {
	Format string `query:"format" enum:"csv,xlsx" default:"csv" doc:"Both are sent as they are read; xlsx has 1,048,575 orders at most, and the rest begins behind its last row"`
	For    string `query:"for" enum:"programs,people" default:"programs" doc:"people: with recipient, address, tracking and what was refunded; amounts in the currency's unit, times in the shop's zone, words in the reader's language, numbers as texts"`
	Cursor string `query:"cursor" maxLength:"64" doc:"The last column of the last whole row that arrived: the export goes on behind it, in CSV without a heading"`
	Filters
}

// exportOutput streams an export.
type exportOutput struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	Disposition  string `header:"Content-Disposition"`
	Body         func(huma.Context)
}

var errExporting = fault.Plain(fault.Unavailable,
	fault.T("Two exports are under way on this instance. Try again when one has ended.", "本实例已有两个导出任务，请等待其中一个完成后重试。")).After(10 * time.Second)

// sheet is a file that an export writes.
type sheet interface {
	// write appends a row.
	write(cells []string) error
	// flush sends what was written so far.
	flush() error
	close() error
	// most is how many rows it can hold below its heading.
	most() int
}

const exportPath = "/api/v1/admin/orders/export"

func (s *Service) exportRoute(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: exportPath, ID: "export-orders", Load: httpx.Costly, Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary: "Orders as CSV or XLSX", Audit: "order.export", Files: []string{csvType, xlsxType},
		Description: "All orders that match, with the filters and in the order of the list; amounts in minor units unless it is for people, phones as the list shows them. A connection that breaks costs a CSV file nothing: " +
			"what arrived is whole up to its last line break, and the last column of its last row is the `cursor` of the rest; a broken XLSX cannot be opened. " +
			"It is read slowly, so that a sale does not notice: a million orders take some minutes. How many there will be is not counted beforehand; what has arrived grows all the time, and its last row says back to when. " +
			"With `updated_from` or `updated_until` an order that changes meanwhile moves in front of what was read and may be missing: ask again from a minute before the export began.",
	}, s.export)
}

// export streams the orders that match, in the order of the list. No transaction is
// open while the client reads: each batch is a query of its own behind the last one.
func (s *Service) export(ctx context.Context, in *exportInput) (*exportOutput, error) {
	f, err := s.filterOf(ctx, &in.Filters)
	if err != nil {
		return nil, err
	}
	f.parcels = in.For == forPeople
	if _, _, err := f.begin(in.Cursor); err != nil {
		return nil, err
	}
	select {
	case s.exports <- struct{}{}:
	default:
		return nil, errExporting
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error { return audit.Note(ctx, tx, "order.export", "orders", in.recorded(ctx)) })
	if err != nil {
		<-s.exports
		return nil, errReading.Because(err)
	}
	kind := csvType + "; charset=utf-8"
	if in.Format == "xlsx" {
		kind = xlsxType
	}
	return &exportOutput{
		CacheControl: httpx.NoStore, ContentType: kind, Disposition: `attachment; filename="orders.` + in.Format + `"`,
		Body: func(h huma.Context) {
			defer func() { <-s.exports }()
			if err := s.stream(ctx, f, in, h.BodyWriter()); err != nil {
				s.deps.Log.WarnContext(ctx, "export ended early", "error", err)
				// The client sees that the file is not complete.
				panic(http.ErrAbortHandler)
			}
		},
	}, nil
}

// recorded is what the audit log keeps of an export: which filters narrowed it.
func (in *exportInput) recorded(ctx context.Context) map[string]any {
	detail := map[string]any{"format": in.Format, "for": in.For, "whole_phones": auth.From(ctx).Role.May(auth.Operator)}
	if in.Cursor != "" {
		detail["cursor"] = in.Cursor
	}
	for field, v := range reflect.ValueOf(in.Filters).Fields() {
		name := field.Tag.Get("query")
		at, isTime := reflect.TypeAssert[time.Time](v)
		id, isID := reflect.TypeAssert[httpx.QueryID](v)
		switch {
		case v.IsZero():
		case name == "pickup_code", name == "recipient":
			detail[name] = true // the code is worth the goods, and the log keeps a name for ever
		case name == "phone":
			detail[name] = account.Phone(in.Phone).Masked()
		case isTime:
			detail[name] = httpx.Moment(at)
		case isID:
			detail[name] = httpx.FormatID(id.N)
		default:
			detail[name] = v.Interface()
		}
	}
	return detail
}

// stream writes the orders that match to w.
func (s *Service) stream(ctx context.Context, f *filter, in *exportInput, w io.Writer) error {
	as := programs
	if in.For == forPeople {
		as = people(httpx.LanguageFrom(ctx), s.deps.Zone)
	}
	out, err := newSheet(in.Format, as, in.Cursor != "", w)
	if err != nil {
		return err
	}
	written := 0
	for cursor := in.Cursor; ; {
		began := time.Now()
		rows, next, err := s.batch(ctx, f, cursor, min(exportBatch, out.most()-written))
		if err != nil {
			return err
		}
		for i := range rows {
			if err := out.write(as.cells(&rows[i])); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		written += len(rows)
		if len(rows) > 0 && written/exportLogged > (written-len(rows))/exportLogged {
			s.deps.Log.InfoContext(ctx, "export under way", "rows", written, "format", in.Format, "back_to", rows[len(rows)-1].CreatedAt)
		}
		if cursor = next; next == "" || written == out.most() {
			break
		}
		if err := app.Sleep(ctx, min(exportRest*time.Since(began), exportRestMost)); err != nil {
			return err
		}
	}
	if err := out.close(); err != nil {
		return err
	}
	s.deps.Log.InfoContext(ctx, "orders exported", "rows", written, "format", in.Format)
	return nil
}

// batch reads the next orders, and tries again while they cannot be read.
func (s *Service) batch(ctx context.Context, f *filter, cursor string, most int) (rows []AdminOrderRow, next string, err error) {
	for try := 1; ; try++ {
		rows, next, err = s.page(ctx, f, cursor, most, s.maxRead)
		if err == nil || try == exportTries {
			return rows, next, err
		}
		if stop := app.Sleep(ctx, time.Second); stop != nil {
			return nil, "", errors.Join(err, stop)
		}
	}
}

// layout is what an export has of an order.
type layout struct {
	heading []string
	// numeric are the columns that a spreadsheet adds up; all others are texts, which no
	// spreadsheet evaluates.
	numeric map[string]bool
	cells   func(r *AdminOrderRow) []string
	// texts keeps CSV's numbers that nobody adds up from being taken for numbers.
	texts bool
}

// programs is the layout whose columns are named as the list names its members.
var programs = layout{
	heading: []string{
		"order_no", "status", "reason", "user_id", "phone", "activity_id", "session_id", "item_id", "sku", "spec", "title", "quantity",
		"unit_price", "freight", "discount", "total", "currency", "created_at", "paid_at", "updated_at",
		"payment_no", "provider", "method", "provider_txn", "external_id", "cursor",
	},
	numeric: map[string]bool{"quantity": true, "unit_price": true, "freight": true, "discount": true, "total": true},
	cells:   (*AdminOrderRow).cells,
}

// cells are a row's columns; amounts are in minor units.
func (r *AdminOrderRow) cells() []string {
	amount := func(n int64) string { return strconv.FormatInt(n, 10) }
	var by orderevent.PaidBy
	payment := ""
	if r.Paid != nil {
		by, payment = *r.Paid, r.Paid.PaymentNo.String()
	}
	return []string{
		r.OrderNo.String(), r.Status, r.Reason, r.UserID, r.Phone, r.ActivityID, r.SessionID, r.ItemID, r.SKU, r.Spec, r.Title, amount(int64(r.Quantity)),
		amount(r.UnitPrice.Amount), amount(r.Lines.Freight.Amount), amount(r.Lines.Discount.Amount), amount(r.Amount.Amount), r.Amount.Currency,
		r.CreatedAt, r.PaidAt, r.UpdatedAt, payment, by.Provider, by.Method, by.ProviderTxn, r.ExternalID, r.next,
	}
}
