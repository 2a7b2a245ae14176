package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"stampede/platform/edge/auth"
)

// openWebhook compares the whole way beside a webhook whose receiver hangs with the
// whole way without one, on the same server.
func openWebhook(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	s, item, err := rig.endless(ctx)
	if err != nil {
		return baseline, ours, err
	}
	token, err := rig.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Admin}, time.Hour)
	if err != nil {
		return baseline, ours, err
	}
	var called atomic.Int64
	over := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1); <-over }))
	rig.onClose(func(context.Context) error { close(over); receiver.Close(); return nil })
	hooks := s.URL + "/api/v1/admin/webhooks"
	var added struct {
		ID string `json:"id"`
	}
	remove := func(ctx context.Context) error {
		if added.ID == "" {
			return nil
		}
		_, _, err := ask(ctx, http.MethodDelete, hooks+"/"+added.ID, token, nil, http.StatusOK)
		added.ID = ""
		return err
	}
	// A new webhook for each round: one that has failed for long is sent one event at a
	// time, which costs less.
	add := func(ctx context.Context) error {
		if err := remove(ctx); err != nil {
			return err
		}
		_, answer, err := ask(ctx, http.MethodPost, hooks, token, strings.NewReader(`{"url":"`+receiver.URL+`/"}`), http.StatusCreated)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(answer, &added); err != nil {
			return fmt.Errorf("read the new webhook: %w", err)
		}
		// Some orders, so that deliveries hang when the round begins.
		first, before := s.whole(item), called.Load()
		if err := first.Prepare(ctx, fewConns); err != nil {
			return err
		}
		if _, err := first.Work(ctx, fewConns); err != nil {
			return err
		}
		return until(ctx, func() (bool, error) { return called.Load() > before, nil })
	}
	after := func(change func(context.Context) error) Side {
		side := s.whole(item)
		prepare := side.Prepare
		side.Prepare = func(ctx context.Context, n int) error {
			// Last, because a delivery hangs for 10 s and paths may take longer.
			if err := prepare(ctx, n); err != nil {
				return err
			}
			return change(ctx)
		}
		return side
	}
	return after(remove), after(add), nil
}
