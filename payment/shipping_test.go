package payment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

func TestShipping(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}),
		aSheetShipsTwoHundredOrders, eachRowHasItsResult, anOrderRefundedMeanwhileStays, twoOperatorsShipTheSame, sheetsThatCannotBeRead, aListShips, theShopperConfirmsTheReceipt,
	)
}

// toShip are paid orders to be delivered.
func (s *bundle) toShip(n int) []ids.ID {
	s.t.Helper()
	nos, users := s.buy(n, 100)
	err := pg.InTx(s.t.Context(), s.db, func(tx pgx.Tx) error {
		for i, no := range nos {
			_, err := tx.Exec(s.t.Context(), `INSERT INTO orders.details (bucket, order_no, user_id, way, name, phone, address) VALUES ($1, $2, $3, 'delivery', '王小明', '+8613800138000', '人民路 1 号')`, no.Bucket(), no, users[i])
			if err == nil {
				_, _, err = s.orders.MarkPaid(s.t.Context(), tx, no, orderevent.PaidBy{PaymentNo: ids.New(), Provider: "sandbox"}, 100)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(s.t, err)
	return nos
}

// shipments is the answer to a list or a sheet.
type shipments struct {
	Data []struct {
		Line                  int
		OrderNo               string `json:"order_no"`
		Carrier, Result, Says string
	}
	Shipped int
	Already int `json:"already_shipped"`
	Refused int
}

// sums are "shipped, already, refused".
func (a shipments) sums() string { return fmt.Sprint(a.Shipped, a.Already, a.Refused) }

// results are by line.
func (a shipments) results() map[int]string {
	made := map[int]string{}
	for _, r := range a.Data {
		made[r.Line] = r.Result
	}
	return made
}

// upload sends a sheet.
func (s *bundle) upload(by int64, query, file string) (made shipments) {
	s.t.Helper()
	a := s.staff(by, http.MethodPost, "shipments/import"+query, file, "Content-Type", "application/octet-stream", "Accept-Language", "zh")
	raw, err := json.Marshal(a.Doc)
	require.NoError(s.t, err)
	if a.Status != http.StatusOK {
		s.t.Fatalf("%d %s", a.Status, raw)
	}
	require.NoError(s.t, json.Unmarshal(raw, &made))
	return made
}

// ofClient is a sheet as a carrier's client writes it: a title, a number of its own beside the
// shop's, tabs that keep numbers texts, and a line of sums.
func ofClient(nos []ids.ID, number func(i int) string) string {
	var b strings.Builder
	b.WriteString("发货记录,,,,,\r\n序号,订单号,客户订单号,收件人,快递公司,运单号\r\n")
	for i, no := range nos {
		fmt.Fprintf(&b, "%d,K%06d,%s\t,王小明,中通,%s\t\r\n", i+1, i, no, number(i))
	}
	return b.String()
}

func numbered(i int) string { return fmt.Sprintf("7731%08d", i) }

// A sheet of two hundred orders is shipped, as CSV in GB18030 and as XLSX, and sent again it
// does nothing.
func aSheetShipsTwoHundredOrders(t *testing.T, s *bundle) {
	const many = 200
	for kind, encode := range map[string]func(string) string{
		"GB18030": func(sheet string) string {
			file, err := simplifiedchinese.GB18030.NewEncoder().String(sheet)
			require.NoError(t, err)
			return file
		},
		"XLSX": func(sheet string) string {
			book := excelize.NewFile()
			defer func() { _ = book.Close() }()
			line := 0
			for row := range strings.Lines(sheet) {
				line++
				for i, cell := range strings.Split(strings.TrimSpace(row), ",") {
					at, _ := excelize.CoordinatesToCellName(i+1, line)
					require.NoError(t, book.SetCellStr("Sheet1", at, cell))
				}
			}
			var out bytes.Buffer
			require.NoError(t, book.Write(&out))
			return out.String()
		},
	} {
		nos := s.toShip(many)
		file := encode(ofClient(nos, numbered))
		require.Equal(t, kind+": a dry run", s.upload(firstOperator, "?dry_run=true", file).sums(), "200 0 0")
		require.Equal(t, kind+": parcels after a dry run", read[int](s, `SELECT count(*)::int FROM orders.shipments WHERE order_no = ANY($1)`, nos), 0)
		require.Equal(t, kind, s.upload(firstOperator, "", file).sums(), "200 0 0")
		require.Equal(t, kind+": again", s.upload(firstOperator, "", file).sums(), "0 200 0")
		require.Equal(t, kind+": parcels", read[int](s, `SELECT count(*)::int FROM orders.shipments s JOIN orders.orders o USING (order_no, bucket) WHERE order_no = ANY($1) AND carrier = '中通快递' AND tracking_no LIKE '7731%' AND o.handover = 'shipped' AND o.version = 3`, nos), many)
		require.Equal(t, kind+": events", s.events(orderevent.SubjectShipped, nos[7]), 1)
	}
}

func eachRowHasItsResult(t *testing.T, s *bundle) {
	good := s.toShip(13)
	s.upload(firstOperator, "", ofClient(good[:1], numbered))
	unpaid, _ := s.one(100)
	paid, _ := s.paidFor(100, sandbox.Normal)
	s.askBack(paid, `{"reason":"recalled"}`, "requested")
	waiting, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	s.askBack(waiting, `{"reason":"recalled"}`, "awaiting_approval")
	s.exec(`INSERT INTO orders.stores (name, address) SELECT 'x', 'y'`)
	picked := s.toShip(1)[0]
	s.exec(`UPDATE orders.details SET way = 'pickup', store_id = (SELECT min(id) FROM orders.stores), pickup_digest = sha256('x') WHERE order_no = $1`, picked)
	rows, want := []string{"order_no,carrier,tracking_no"}, map[int]string{}
	row := func(result, no, by, number string) {
		rows = append(rows, no+","+by+","+number)
		want[len(rows)] = result
	}
	row("already_shipped", good[0].String(), "ZTO", numbered(0))
	row("shipped", good[1].String(), "", "sf1234567890") // the number tells the carrier
	row("shipped", good[2].String(), "其他：骑手小李", "A12345")
	row("shipped", good[3].String(), "商家自送", "")
	row("bad_number", good[4].String(), "顺丰", "7.73E+11")
	row("bad_number", good[4+1].String(), "顺丰", "77")
	row("unknown_carrier", good[6].String(), "飞毛腿", "773100000001")
	row("duplicate", good[7].String(), "ZTO", "773100000007") // and below with another number
	row("duplicate", good[7].String(), "ZTO", "773100000008")
	row("shipped", strings.ToUpper(good[8].String()), "JD", "'JDVA00123456789")
	row("duplicate", good[8].String(), "JD", "JDVA00123456789")
	row("no_such_order", ids.NewFor(7).String(), "ZTO", numbered(1))
	row("no_such_order", "合计", "", "")
	row("bad_number", good[9].String(), "其他：骑手\u2028小李", "A12345") // two lines
	row("unknown_carrier", good[11].String(), "其他："+strings.Repeat("长", 61), "A12345")
	row("shipped", good[12].String(), "其他："+strings.Repeat("长", 60), "A12345")
	s.exec(`UPDATE orders.orders SET status = 'completed' WHERE order_no = $1`, good[10])
	row("shipped", good[10].String(), "ZTO", "773100000010")
	row("not_paid", unpaid.String(), "ZTO", numbered(2))
	row("refunded", paid.String(), "ZTO", numbered(3))
	row("refunded", waiting.String(), "ZTO", numbered(4))
	row("to_be_picked_up", picked.String(), "ZTO", numbered(5))
	sheet := strings.Join(rows, "\n")
	could := s.upload(firstOperator, "?dry_run=true", sheet).results()
	for line, result := range could {
		if result == "ready" {
			could[line] = "shipped"
		}
	}
	require.Equal(t, "what a dry run says", could, want)
	made := s.upload(firstOperator, "", sheet)
	require.Equal(t, "results", made.results(), want)
	require.Equal(t, "sums", made.sums(), "6 1 14")
	require.Equal(t, "the carriers that a number tells, that is typed, and that is not known", []string{made.Data[1].Carrier, made.Data[2].Carrier, made.Data[6].Carrier}, []string{"顺丰速运", "其他:骑手小李", "飞毛腿"})
	for _, r := range made.Data {
		if r.Says == "" || r.Result == "bad_number" && r.OrderNo == good[4].String() && !strings.Contains(r.Says, "四舍五入") {
			t.Errorf("%+v has no words, or the wrong ones", r)
		}
	}
	for _, no := range []ids.ID{paid, waiting} {
		body := fmt.Sprintf(`{"action":"ship","orders":[{"order_no":%q,"carrier":"SF","tracking_no":"7"}]}`, no)
		if got, sums := s.list("", body); sums != "false 0 1" || !strings.HasPrefix(got[no.String()], "order-not-shippable") {
			t.Errorf("a list of actions ships an order with an open refund: %s of %v", sums, got)
		}
	}
	s.has(s.staff(firstOperator, http.MethodPut, "orders/"+waiting.String()+"/shipment", `{"carrier":"SF","tracking_no":"7"}`), http.StatusOK, `"tracking_no":"7"`)
	made = s.upload(firstOperator, "", ofClient(good[:1], func(int) string { return "773199999999" }))
	require.Equal(t, "another number for a parcel that left", made.results(), map[int]string{3: "shipped_otherwise"})
	made = s.upload(firstOperator, "", "订单号,快递公司,运单号\n"+good[0].String()+",圆通,"+numbered(0))
	require.Equal(t, "another carrier for a parcel that left", made.results(), map[int]string{2: "shipped_otherwise"})
	s.has(s.document(good[1], read[int64](s, `SELECT user_id FROM orders.orders WHERE order_no = $1`, good[1])), http.StatusOK,
		`"carrier_code":"SF"`, `"carrier_name":"SF Express"`, `"tracking_url":"https://www.sf-express.com/chn/sc/waybill/waybill-detail/SF1234567890"`)
	s.refundsDone(paid)
}

// An order whose refund is asked for between the dry run and the sheet is not shipped, whenever
// it is asked for: the order's row lock decides.
func anOrderRefundedMeanwhileStays(t *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	sheet := ofClient([]ids.ID{no}, numbered)
	require.Equal(t, "before", s.upload(firstOperator, "?dry_run=true", sheet).sums(), "1 0 0")
	tx, err := s.db.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM orders.orders WHERE order_no = $1 FOR UPDATE`, no)
	require.NoError(t, err)
	answered := make(chan shipments)
	go func() { answered <- s.upload(firstOperator, "", sheet) }()
	s.until("the sheet waits for the order", func() bool {
		return read[int](s, `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	// What asking for a refund writes in the transaction that has the order's row.
	_, err = tx.Exec(t.Context(), `INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, amount, currency, reason, status, requested_by, units)
		SELECT bucket, gen_random_uuid(), payment_no, order_no, user_id, provider, provider_txn, 100, 'CNY', 'operator', 'awaiting_approval', 7, 'return' FROM orders.orders WHERE order_no = $1`, no)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "after", (<-answered).results(), map[int]string{3: "refunded"})
	require.Equal(t, "parcels", read[int](s, `SELECT count(*)::int FROM orders.shipments WHERE order_no = $1`, no), 0)
}

func twoOperatorsShipTheSame(t *testing.T, s *bundle) {
	const many = 60
	nos := s.toShip(many)
	sheet := ofClient(nos, numbered)
	var made [2]shipments
	var g sync.WaitGroup
	for i, by := range []int64{firstOperator, secondOperator} {
		g.Go(func() { made[i] = s.upload(by, "", sheet) })
	}
	g.Wait()
	require.Equal(t, "shipped by either, and refused", []int{made[0].Shipped + made[1].Shipped, made[0].Already + made[1].Already, made[0].Refused + made[1].Refused}, []int{many, many, 0})
	require.Equal(t, "changes", read[int](s, `SELECT count(*)::int FROM orders.history WHERE order_no = ANY($1) AND reason = 'shipped'`, nos), many)
}

func sheetsThatCannotBeRead(t *testing.T, s *bundle) {
	bomb := excelize.NewFile()
	defer func() { _ = bomb.Close() }()
	require.NoError(t, bomb.SetCellStr("Sheet1", "A1", strings.Repeat("x", 32_000)))
	for i := range 300 { // the same text 300 times: some kilobytes that unpack to nine megabytes
		require.NoError(t, bomb.SetCellStr("Sheet1", fmt.Sprint("A", i+2), strings.Repeat("x", 32_000)+fmt.Sprint(i)))
	}
	var out bytes.Buffer
	require.NoError(t, bomb.Write(&out))
	for file, want := range map[string]string{
		"": "表头", "a,b\n1,2": "“订单号”和“运单号”", "订单号,运单号\n": "没有带订单号的行", "\xff\xfe\x00": "文件编码无法识别", "PK\x03\x04x": "无法识别该工作簿",
		"订单号,运单号\n" + strings.Repeat("a,1\n", 2001): "超过 2000 行", strings.Repeat(",", 100_001): "100000 个单元格", out.String(): "解压后超过 8 MiB",
	} {
		a := s.staff(firstOperator, http.MethodPost, "shipments/import", file, "Content-Type", "application/octet-stream", "Accept-Language", "zh")
		if detail := a.Text("detail"); file != "" && (a.Status != http.StatusUnprocessableEntity || !strings.Contains(detail, want)) || file == "" && a.Status < 400 {
			t.Errorf("%.20q: %d %v, want %s", file, a.Status, a.Doc, want)
		}
	}
	if a := s.staff(firstOperator, http.MethodPost, "shipments/import", strings.Repeat(" ", 4<<20+1), "Content-Type", "application/octet-stream"); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a file of more than 4 MiB: %d %v", a.Status, a.Doc)
	}
}

func aListShips(t *testing.T, s *bundle) {
	nos := s.toShip(2)
	rows := make([]map[string]string, 0, 2)
	for i, no := range nos {
		rows = append(rows, map[string]string{"order_no": strings.ToUpper(no.String()), "carrier": "SF", "tracking_no": fmt.Sprintf("SF00000000%02d", i)})
	}
	body, _ := json.Marshal(map[string]any{"orders": rows})
	for _, sums := range []string{`"shipped":2`, `"already_shipped":2`} {
		s.has(s.staff(firstOperator, http.MethodPost, "shipments", string(body)), http.StatusOK, sums, `"refused":0`)
	}
	without := s.toShip(2)
	sheet := fmt.Sprintf("订单号,运单号,快递公司\n%s,773200000001,\n%s,773200000002,圆通\n", without[0], without[1])
	require.Equal(t, "of rows that name no carrier", s.upload(firstOperator, "?carrier=ZTO", sheet).sums(), "2 0 0")
	require.Equal(t, "carriers", read[string](s, `SELECT string_agg(carrier, ' ' ORDER BY tracking_no) FROM orders.shipments WHERE tracking_no LIKE '7732%'`), "中通快递 圆通速递")
	require.Equal(t, "audited", s.audited("order.ship", nos[0]), `{"after": {"status": "paid", "carrier": "顺丰速运", "tracking_no": "SF0000000000"}, "before": {"status": "paid"}}`)
	s.says(s.get(7, "/api/v1/admin/carriers"), "forbidden")
	s.has(s.staff(firstOperator, http.MethodGet, "carriers", ""), http.StatusOK, `{"code":"SF","name":"SF Express"}`)
	for _, bad := range []string{`{"orders":[]}`, `{"orders":[` + strings.Repeat(`{"order_no":"a"},`, 500) + `{"order_no":"a"}]}`} {
		s.says(s.staff(firstOperator, http.MethodPost, "shipments", bad), "invalid")
	}
}

// theShopperConfirmsTheReceipt of what was sent, once, and reads until when it can be refunded
// while it is not.
func theShopperConfirmsTheReceipt(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { s.plan.within = 0 })
	no, user := s.paidFor(100, sandbox.Normal)
	path := "/api/v1/orders/" + no.String() + "/receipt"
	until, err := time.Parse(time.RFC3339, s.document(no, user).Text("refund_until"))
	if left := time.Until(until); err != nil || left < 59*time.Minute || left > time.Hour {
		t.Errorf("refundable until %v: %v", until, err)
	}
	s.plan.within = time.Nanosecond
	require.Equal(t, "refundable after its time", s.document(no, user).Text("refund_until"), "")
	s.plan.within = time.Hour
	s.says(s.post(user, path, ""), "order-not-sent")
	s.upload(firstOperator, "", ofClient([]ids.ID{no}, numbered))
	require.Equal(t, "refundable once it is sent", s.document(no, user).Text("refund_until"), "")
	s.says(s.post(user+1, path, ""), "not-found")
	s.says(s.post(user, "/api/v1/orders/"+ids.NewFor(user).String()+"/receipt", ""), "not-found")
	poll := "/api/v1/orders/" + no.String()
	s.has(s.get(user, poll), http.StatusOK, `"status":"paid"`) // it is cached now
	for range 2 {
		s.has(s.post(user, path, ""), http.StatusOK, `"status":"completed"`)
	}
	s.has(s.get(user, poll), http.StatusOK, `"status":"completed"`)
	require.Equal(t, "why it is completed", read[string](s, `SELECT reason FROM orders.history WHERE order_no = $1 AND status = 'completed'`, no), "received")
	require.Equal(t, "history", s.story(no), fmt.Sprintf("paid by operator %d, completed by shopper", firstOperator))
	require.Equal(t, "events", s.events(orderevent.SubjectCompleted, no), 1)
}
