package sale

import (
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
	hook := newWebhook(t)
	in := shop.Serve(t, databaseURL, redisURL, hook.args...)
	sale := in.Plan(t, 30, 2*time.Second)

	log := filepath.Join(t.TempDir(), "client.jsonl")
	stores := []string{"--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}
	out := shop.Command(t, 0, append([]string{
		"rush", "--item=" + sale.ItemID, "--shoppers=400", "--conns=32", "--pay=80%", "--json", "--url=" + in.URL, "--signing-key=" + shop.Key, "--log=" + log,
	}, stores...)...)
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
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	if report.Answers["queued"] != 30 || report.Outcomes["paid"] != 24 || report.Outcomes["pending_payment"] != 6 || !report.BooksProved {
		t.Errorf("report %+v; want 30 in line, 24 paid, 6 waiting to pay, books proved", report)
	}
	// A slow machine may load the item after its opening, or renew a lane's lease
	// too late; such attempts are refused with a time to come again, and do.
	delete(report.Troubles, "an attempt was answered fenced and repeated")
	require.Equal(t, fmt.Sprint("troubles ", report.Troubles), len(report.Troubles), 0)

	if b := report.Books; len(b) != 1 || b[0].ItemID != sale.ItemID || b[0].Total != 30 || b[0].Held != 6 || b[0].Sold != 24 || b[0].Difference != 0 {
		t.Errorf("the report's books are %+v, want 24 of 30 sold and 6 held", b)
	}

	// The same books, proved by the command that an operator runs afterwards.
	require.Contains(t, "verify", shop.Command(t, 0, append([]string{"verify", "--client-log=" + log}, stores...)...), "I1", "I9")

	hook.delivers(t, in, databaseURL)
	began := time.Now()
	require.Equal(t, "exit code", in.Stop(), 0)
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
	stores := []string{"--database-url=" + pool.Config().ConnString(), "--redis-url=" + redisURL}
	require.Contains(t, "verify", shop.Command(t, 1, append([]string{"verify", "--data=" + t.TempDir()}, stores...)...), no.String())
	unknown := shop.Command(t, 1, append([]string{"verify", "--item=78"}, stores...)...)
	require.Equal(t, "how verify of an unknown item begins", strings.HasPrefix(unknown, "Item 78 has no books: no item with that number was published."), true)
}
