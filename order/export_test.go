package order

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/require"
)

// TestExport streams the list's orders as CSV and as XLSX: a broken line goes on behind
// its last row, no cell is a formula, and the audit log knows who read what.
func TestExport(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	e.searching(phoneBook{user: 2}, nil)
	b := e.item(10)
	b.Title = `=HYPERLINK("http://evil","a,b")`
	m := e.placed(b, 1, 2, 3)
	e.placed(e.item(10), 4)
	e.exec(`INSERT INTO orders.external_references (bucket, order_no, user_id, external_id) VALUES ($1, $2, 2, '=SO/7')`, m.Grants[1].No.Bucket(), m.Grants[1].No)
	query := "/api/v1/admin/orders/export?item_id=" + httpx.FormatID(b.ItemID)
	read := func(query string, role auth.Role) [][]string {
		t.Helper()
		rec := e.get(query, 99, role)
		body, marked := strings.CutPrefix(rec.Body.String(), "\ufeff")
		rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if rec.Code != http.StatusOK || err != nil || marked == strings.Contains(query, "cursor=") {
			t.Fatalf("%s: %d %v, marked %t: %s", query, rec.Code, err, marked, body)
		}
		return rows
	}
	column := func(rows [][]string, name string) string { return rows[2][slices.Index(rows[0], name)] }
	rows := read(query, auth.Operator)
	if len(rows) != 4 || column(rows, "order_no") != m.Grants[1].No.String() || column(rows, "title") != "'"+b.Title || column(rows, "phone") != "'"+thePhone || column(rows, "user_id") != "2" ||
		column(rows, "external_id") != "'=SO/7" {
		t.Errorf("the export: %q", rows)
	}
	if masked := read(query, auth.Viewer); column(masked, "phone") != "138****8000" {
		t.Errorf("a viewer reads the phone %s", column(masked, "phone"))
	}
	if rest := read(query+"&cursor="+column(rows, "cursor"), auth.Operator); len(rest) != 1 || rest[0][0] != m.Grants[0].No.String() {
		t.Errorf("behind the second order: %q, want the third alone", rest)
	}
	rec := e.get(query+"&format=xlsx", 99, auth.Operator)
	book, err := excelize.OpenReader(rec.Body)
	require.NoError(t, err)
	cells, err := book.GetRows(book.GetSheetName(0))
	if err != nil || len(cells) != 4 || column(cells, "title") != b.Title || column(cells, "phone") != thePhone || column(cells, "external_id") != "=SO/7" || column(cells, "total") != column(rows, "total") {
		t.Errorf("the workbook: %v %q", err, cells)
	}
	if n := e.count(`SELECT count(*) FROM platform.audit WHERE action = 'order.export' AND actor = 99 AND detail->>'item_id' = $1`, httpx.FormatID(b.ItemID)); n != 4 {
		t.Errorf("%d of 4 exports in the audit log", n)
	}
	e.get("/api/v1/admin/orders/export?recipient=王小明", 99, auth.Operator)
	if n := e.count(`SELECT count(*) FROM platform.audit WHERE action = 'order.export' AND detail->>'recipient' = 'true'`); n != 1 {
		t.Errorf("%d of 1 export by name in the audit log without the name, which the log would keep for ever", n)
	}
	for query, want := range map[string]int{"?format=pdf": 422, "?cursor=zzz": 422, "?status=lost": 422} {
		if rec := e.get("/api/v1/admin/orders/export"+query, 99, auth.Operator); rec.Code != want {
			t.Errorf("%s: %d %s", query, rec.Code, rec.Body)
		}
	}
}

// TestExportCrossesBatches reads more orders than one batch and one page's bound hold.
func TestExportCrossesBatches(t *testing.T) {
	t.Parallel()
	const past = 20_000
	e := setupEdge(t)
	e.past(e.item(10).ItemID, past)
	rec := e.get("/api/v1/admin/orders/export", 99, auth.Viewer)
	seen := map[string]bool{}
	for line := range strings.Lines(rec.Body.String()) {
		no, _, _ := strings.Cut(line, ",")
		seen[no] = true
	}
	if len(seen) != past+1 || strings.Count(rec.Body.String(), "\n") != past+1 {
		t.Errorf("%d lines, %d of them different, for %d orders and a heading", strings.Count(rec.Body.String(), "\n"), len(seen), past)
	}
	if rec := e.get("/api/v1/admin/orders/export?session_id=99", 99, auth.Viewer); strings.Count(rec.Body.String(), "\n") != 1 {
		t.Errorf("an export of nothing: %s", rec.Body)
	}
}

// slowClient takes the first bytes of an answer's rows and no more until it leaves.
type slowClient struct {
	*httptest.ResponseRecorder
	arrived chan struct{} // closed by the first write
	gone    <-chan struct{}
}

func (c *slowClient) Write(p []byte) (int, error) {
	if len(p) <= len("\ufeff") {
		return len(p), nil
	}
	close(c.arrived)
	<-c.gone
	return 0, io.ErrClosedPipe
}

// TestExportWaitsForASlowClientWithoutAConnection holds two exports in the middle of an
// answer, in a pool of one connection: the connection is free, a third export is
// refused, and clients that leave end theirs and give the places back.
func TestExportWaitsForASlowClientWithoutAConnection(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, oneConnection(t))
	e.past(e.item(10).ItemID, 1_500)
	const path = "/api/v1/admin/orders/export"
	token := httpxtest.Token(t, e.tokens, auth.Principal{UserID: 99, Role: auth.Viewer})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan any, 2)
	for range cap(ended) {
		c := &slowClient{httptest.NewRecorder(), make(chan struct{}), ctx.Done()}
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		go func() {
			defer func() { ended <- recover() }()
			e.search.ServeHTTP(c, req)
		}()
		select {
		case <-c.arrived:
		case <-time.After(30 * time.Second):
			t.Fatal("no row arrives")
		}
	}
	asking, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var open int
	err := e.db.QueryRow(asking, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = 'client backend'`).Scan(&open)
	if err != nil || open != 0 {
		t.Errorf("while two clients read, %d transactions are open: %v", open, err)
	}
	if rec := e.get(path, 99, auth.Viewer); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
		t.Errorf("a third export: %d %v", rec.Code, rec.Header())
	}
	leave()
	for range cap(ended) {
		select {
		case v := <-ended:
			if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
				t.Errorf("an export whose client left ends with %v", v)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("an export outlives its client")
		}
	}
	if rec := e.get(path+"?session_id=99", 99, auth.Viewer); rec.Code != http.StatusOK {
		t.Errorf("an export after the others: %d %s", rec.Code, rec.Body)
	}
}

// TestExportForPeople: whom it goes to and how, amounts in yuan, times in the shop's zone, words
// in the reader's language, and no number that a spreadsheet would change.
func TestExportForPeople(t *testing.T) {
	t.Parallel()
	e := setupEdge(t)
	b := e.item(10)
	m := e.placed(b, 1, 2)
	no := m.Grants[0].No
	e.delivered(no)
	e.exec(`UPDATE orders.orders SET paid_at = '2026-11-11 12:00:00+00', handover = 'shipped' WHERE order_no = $1`, no)
	e.exec(`UPDATE orders.details SET note = '=1+1' WHERE order_no = $1`, no)
	e.exec(`INSERT INTO orders.shipments (bucket, order_no, carrier, tracking_no, at) VALUES ($1, $2, 'zto', '773123456789012', '2026-11-12 01:00:00+00')`, no.Bucket(), no)
	e.searching(nil, booked{refunded: map[ids.ID]int64{no: 5}})
	want := map[string]string{
		"Status": "Shipped", "Recipient": "王小明", "Phone": "13800138000", "Address": "人民路 1 号", "Note": "=1+1", "Carrier": "ZTO Express", "Tracking number": "773123456789012",
		"Shipped at": "2026-11-12 09:00:00", "Paid at": "2026-11-11 20:00:00", "Refunded": "0.05", "Discount": "0.00", "Order number": no.String(),
	}
	check := func(format string, rows [][]string) {
		t.Helper()
		for name, value := range want {
			if i := slices.Index(rows[0], name); i < 0 || strings.TrimSuffix(strings.TrimPrefix(rows[1][i], "'"), "\t") != value {
				t.Errorf("%s: %s is not %q in %q", format, name, value, rows)
			}
		}
	}
	rec := e.get("/api/v1/admin/orders/export?for=people&status=paid", 99, auth.Operator)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(rec.Body.String(), "\ufeff"))).ReadAll()
	require.NoError(t, err)
	check("csv", rows)
	for _, guarded := range []string{"'=1+1", "773123456789012\t"} {
		if !slices.Contains(rows[1], guarded) {
			t.Errorf("no %q in %q", guarded, rows[1])
		}
	}
	rec = e.get("/api/v1/admin/orders/export?for=people&status=paid&format=xlsx", 99, auth.Operator)
	book, err := excelize.OpenReader(rec.Body)
	require.NoError(t, err)
	cells, err := book.GetRows(book.GetSheetName(0))
	require.NoError(t, err)
	check("xlsx", cells)
	for name, want := range map[string]excelize.CellType{"Refunded": excelize.CellTypeUnset, "Tracking number": excelize.CellTypeInlineString, "Order number": excelize.CellTypeInlineString} {
		at, _ := excelize.CoordinatesToCellName(slices.Index(cells[0], name)+1, 2)
		kind, err := book.GetCellType(book.GetSheetName(0), at)
		require.Equal(t, name+"'s type", []any{kind, err}, []any{want, error(nil)})
	}
	masked := e.get("/api/v1/admin/orders/export?for=people&status=paid", 99, auth.Viewer).Body.String()
	if strings.Contains(masked, "13800138000") || strings.Contains(masked, "人民路") || !strings.Contains(masked, "138****8000") {
		t.Errorf("as a viewer reads it: %s", masked)
	}
	require.Equal(t, "exports in the audit log", e.count(`SELECT count(*) FROM platform.audit WHERE action = 'order.export' AND detail->>'for' = 'people'`), 3)
}
