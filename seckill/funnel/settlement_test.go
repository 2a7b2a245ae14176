package funnel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
	"stampede/platform/watch/proof/runs"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/settlement"
)

// Once no order of a session can be paid any more the books are proved, once for all instances, and the report is kept as
// it was; what the proof found is an alarm.
func TestSessionIsSettled(t *testing.T) {
	t.Parallel()
	var finds atomic.Pointer[func() ([]proof.Violation, error)]
	find := func(found []proof.Violation, failed error) {
		finds.Store(new(func() ([]proof.Violation, error) { return found, failed }))
	}
	find(nil, nil)
	d := setup(t)
	quiet := slog.New(slog.DiscardHandler)
	pgtest.Work(t, runs.New(d.DB, []proof.Check{{ID: "I1", Name: "never oversold", Run: func(context.Context) ([]proof.Violation, error) { return (*finds.Load())() }}}, quiet).Workers()[0].Run)
	stock := &heldStock{Stock: d.Stock}
	svc := settlement.New(settlement.Deps{DB: d.DB, Stock: stock, Clock: d.Clock, Report: d.svc.Report, Log: quiet})
	svc.Routes(d.Router.API)
	step := func() {
		t.Helper()
		// Two leaders at a time, as when a lease was lost.
		first, second := make(chan error), make(chan error)
		go func() { first <- svc.Look(t.Context()) }()
		go func() { second <- svc.Look(t.Context()) }()
		require.NoError(t, errors.Join(<-first, <-second))
	}
	list := func(s string) []any {
		t.Helper()
		r := d.As(auth.Viewer, http.MethodGet, "/api/v1/admin/activities/"+s+"/settlements", nil)
		all, _ := r.Doc["settlements"].([]any)
		return all
	}
	proofs := func() int64 { return d.Number(`SELECT count(*) FROM platform.proof_runs`) }
	settled := func(s string) map[string]any {
		t.Helper()
		pgtest.Eventually(t, 30*time.Second, func() bool { step(); return len(list(s)) == 1 }, "the session to be settled")
		return list(s)[0].(map[string]any)
	}

	held := d.Publish(time.Minute)
	stock.item = held.StockItem(t, false).ID
	s := d.Publish(time.Minute)
	kept := "/api/v1/admin/sessions/" + s.Session + "/report?kept=true"
	last := time.Minute + time.Hour + 15*time.Minute // the opening, the session and its payment window
	d.Clock.Set(last)
	step()
	require.Equal(t, "proofs while an order may be paid", proofs(), 0)
	d.As(auth.Viewer, http.MethodGet, kept, nil).Want(t, "no report is kept yet", http.StatusNotFound, "not-settled")

	d.Clock.Set(last + 2*time.Minute)
	doc := settled(s.Activity)
	require.Equal(t, "proofs", proofs(), 1)
	require.Equal(t, "status", doc["status"], "proved")
	d.SQL(`UPDATE inventory.stock SET available = available - 1 WHERE item_id = $1::bigint`, s.Item)
	r := d.As(auth.Viewer, http.MethodGet, kept, nil)
	require.Equal(t, "what is left, as it was", r.Doc["items"].([]any)[0].(map[string]any)["left"], any(10.0))
	sum := sha256.Sum256(r.Raw)
	require.Equal(t, "the hash", doc["sha256"], any(hex.EncodeToString(sum[:])))
	require.Contains(t, "the page", d.raw(kept, "Accept", "text/html"), "<!doctype html>")
	step()
	require.Equal(t, "proofs of a settled session", proofs(), 1)
	require.Equal(t, "a session whose unit is held", len(list(held.Activity)), 0)
	alarms := func() []alarm.Alarm {
		all, err := alarm.List(t.Context(), d.DB, alarm.Filter{Limit: 10})
		require.NoError(t, err)
		return all
	}
	notice := alarms()
	require.Equal(t, "what operators hear", []any{len(notice), notice[0].Code, notice[0].Severity}, []any{1, settlement.Settled.Code, alarm.Info})
	require.Contains(t, "the notice", notice[0].Detail, "0 attempts, 0 orders", "A phone: 0 sold of 10")
	open, err := alarm.List(t.Context(), d.DB, alarm.Filter{Open: true, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "open alarms", len(open), 0)

	find([]proof.Violation{{Subject: "item 1", Detail: "2 units are missing."}}, nil)
	stock.item = 0
	require.Equal(t, "status", settled(held.Activity)["status"], "violated")
	a := alarms()
	require.Equal(t, "alarms", []any{len(a), a[0].Code, a[0].Subject}, []any{2, settlement.Violated.Code, "session " + held.Session})
	require.Contains(t, "the alarm", a[0].Detail, "Sale, First: proof ", " found I1 never oversold, 1 times, first item 1: 2 units are missing.")

	// A session that is extended between its proof and its report is not over.
	d.SQL(`UPDATE seckill.settlements SET settled_at = NULL, status = '', report = '', sha256 = '' WHERE session_id = $1::bigint`, s.Session)
	d.SQL(`UPDATE seckill.sessions SET closes_at = closes_at + interval '1 hour' WHERE id = $1::bigint`, s.Session)
	step()
	d.As(auth.Viewer, http.MethodGet, kept, nil).Want(t, "the report of a session that goes on", http.StatusNotFound, "not-settled")
	d.SQL(`UPDATE seckill.sessions SET closes_at = closes_at - interval '1 hour' WHERE id = $1::bigint`, s.Session)
	step()
	d.As(auth.Viewer, http.MethodGet, kept, nil).Want(t, "the report of a session that was closed early after all", http.StatusOK, "")

	// An extended session is settled again, and what could not be checked is not proved.
	find(nil, errors.New("no connection"))
	d.SQL(`UPDATE seckill.sessions SET closes_at = closes_at + interval '30 minutes' WHERE id = $1::bigint`, s.Session)
	d.Clock.Advance(45 * time.Minute)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		step()
		all := list(s.Activity)
		return len(all) == 1 && all[0].(map[string]any)["status"] == "failed"
	}, "the extended session to be settled again")
	if a = alarms(); len(a) != 3 || a[0].Code != settlement.Unproved.Code || !strings.Contains(a[0].Detail, "no connection") {
		t.Errorf("alarms %+v", a)
	}

	// A terminated session ended when it was terminated, also after its backup was moved.
	d.Clock.Set(0)
	s = d.Publish(-time.Minute)
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/terminate", nil)
	d.SQL(`UPDATE seckill.activities SET updated_at = updated_at - interval '20 minutes' WHERE id = $1::bigint`, s.Activity)
	before, run := settled(s.Activity), proofs()
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/backup", `{"units":3}`)
	d.Clock.Set(20 * time.Minute)
	step()
	require.Equal(t, "the settlement after a move", list(s.Activity), []any{before})
	require.Equal(t, "proofs after a move", proofs(), run)
}

// heldStock is stock of which an item has a unit that an order may still pay.
type heldStock struct {
	settlement.Stock

	item int64
}

func (h *heldStock) Book(ctx context.Context, item int64) (inventory.BookRow, bool, error) {
	row, ok, err := h.Stock.Book(ctx, item)
	if item == h.item {
		row.Held++
	}
	return row, ok, err
}
