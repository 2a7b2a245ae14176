package sale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

func TestSaleRunsEndToEnd(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	in := shop.Serve(t, databaseURL, redisURL)
	sale := in.Plan(t, 30, 2*time.Second)

	log := filepath.Join(t.TempDir(), "client.jsonl")
	var out, errs bytes.Buffer
	code := shop.Run(t.Context(), []string{
		"rush", "--item=" + sale.ItemID, "--shoppers=400", "--conns=32", "--pay=80%", "--json", "--url=" + in.URL, "--signing-key=" + shop.Key,
		"--log=" + log, "--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir(),
	}, &out, &errs)
	if code != 0 {
		t.Fatalf("rush: exit %d\n%s\n%s", code, out.String(), errs.String())
	}
	var report struct {
		Answers     map[string]int64
		Outcomes    map[string]int64
		Troubles    map[string]int64
		BooksProved bool `json:"books_proved"`
		Books       []struct {
			ItemID                        string `json:"item_id"`
			Total, Held, Sold, Difference int64
		}
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if report.Answers["queued"] != 30 || report.Outcomes["paid"] != 24 || report.Outcomes["pending_payment"] != 6 || !report.BooksProved {
		t.Errorf("report %+v; want 30 in line, 24 paid, 6 waiting to pay, books proved", report)
	}
	// A slow machine may load the item after its opening, or renew a lane's lease
	// too late; such attempts are refused with a time to come again, and do.
	delete(report.Troubles, "an attempt was answered fenced and repeated")
	if len(report.Troubles) > 0 {
		t.Errorf("troubles: %v", report.Troubles)
	}

	if b := report.Books; len(b) != 1 || b[0].ItemID != sale.ItemID || b[0].Total != 30 || b[0].Held != 6 || b[0].Sold != 24 || b[0].Difference != 0 {
		t.Errorf("the report's books are %+v, want 24 of 30 sold and 6 held", b)
	}

	// The same books, proved by the command that an operator runs afterwards.
	out.Reset()
	code = shop.Run(t.Context(), []string{"verify", "--client-log=" + log, "--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs)
	if code != 0 || !strings.Contains(out.String(), "I1") || !strings.Contains(out.String(), "I9") {
		t.Errorf("verify: exit %d\n%s\n%s", code, out.String(), errs.String())
	}

	began := time.Now()
	if code := in.Stop(); code != 0 {
		t.Errorf("stop: exit %d\n%s", code, in.Err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the stop took %s, want at most 10 s", took)
	}
}

func TestVerifyNamesAPlantedViolation(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	redisURL := pgtest.RedisURL(t)
	// Money for an order that does not exist. Nothing about it is in flight, so
	// verify does not wait and check again.
	no := ids.New()
	_, err := pool.Exec(t.Context(), `INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency)
		VALUES ('sandbox', 'capture', 'planted', $1, $2, 9900, 'CNY')`, ids.New(), no)
	require.NoError(t, err)
	var out, errs bytes.Buffer
	code := shop.Run(t.Context(), []string{"verify", "--database-url=" + pool.Config().ConnString(), "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs)
	if code != 1 || !strings.Contains(out.String(), no.String()) {
		t.Errorf("verify: exit %d, want 1 naming order %s\n%s\n%s", code, no, out.String(), errs.String())
	}
	out.Reset()
	code = shop.Run(t.Context(), []string{"verify", "--item=78", "--database-url=" + pool.Config().ConnString(), "--redis-url=" + redisURL}, &out, &errs)
	if want := "Item 78 has no books: no item with that number was published."; code != 1 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("verify of an unknown item: exit %d, want 1 and %q\n%s", code, want, out.String())
	}
}

func mustID(t *testing.T, s string) (id int64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &id); err != nil {
		t.Fatal(err)
	}
	return id
}
