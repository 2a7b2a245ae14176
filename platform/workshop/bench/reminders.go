package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/loadgen"
)

const (
	// remindersARound take twenty seconds to send, many times the round; the next one waits for them.
	remindersARound    = 4_000
	remindersPerSecond = 200
	// remindWithin is how long before its opening a sale is planned. Reminders end a minute before it, so they have the rest.
	remindWithin = 100 * time.Second
)

// openReminders compares the whole way while reminders are made and sent with the whole way alone, on the same server.
func openReminders(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	var taken atomic.Int64
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
	rig.onClose(func(context.Context) error { gateway.Close(); return nil })
	// In a zone where it is noon: at night no reminder is sent.
	noon := fmt.Sprintf("--time-zone=Etc/GMT%+d", time.Now().UTC().Hour()-12)
	s, err := rig.restart(ctx, noon, "--sms-gateway-url="+gateway.URL, "--sms-gateway-secret="+rig.key, "--messages-per-second="+strconv.Itoa(remindersPerSecond))
	if err != nil {
		return baseline, ours, err
	}
	item, err := s.Endless(ctx)
	if err != nil {
		return baseline, ours, err
	}
	made := int64(0)
	side := func(reminds bool) Side {
		side := s.whole(item)
		prepare, work := side.Prepare, side.Work
		side.Prepare = func(ctx context.Context, n int) error {
			waiting, stop := context.WithTimeout(ctx, remindWithin)
			defer stop()
			if err := until(waiting, func() (bool, error) { return taken.Load() == made, nil }); err != nil { // those of the last round
				return fmt.Errorf("%d of %d reminders were sent: %w", taken.Load(), made, err)
			}
			if err := prepare(ctx, n); err != nil || !reminds {
				return err
			}
			shoppers := min(n, remindersARound)
			if err := s.remind(ctx, shoppers); err != nil {
				return err
			}
			before := made
			made += int64(shoppers)
			return until(waiting, func() (bool, error) { return taken.Load() > before, nil })
		}
		side.Work = func(ctx context.Context, n int) (map[string]float64, error) {
			before := taken.Load()
			figures, err := work(ctx, n)
			if err == nil {
				figures[figureReminders] = float64(taken.Load() - before)
			}
			return figures, err
		}
		return side
	}
	return side(false), side(true), nil
}

// remind plans a sale that so many shoppers with a phone have reserved in.
func (s *Server) remind(ctx context.Context, shoppers int) error {
	token, err := s.rig.operator()
	if err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, s.rig.stores.DatabaseURL)
	if err != nil {
		return fmt.Errorf("bench: connect to Postgres: %w", err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	_, err = loadgen.PlanSale(ctx, s.URL, token, loadgen.Sale{
		Name: "Reminders", Title: "Benchmark phone", Stock: 1, OpensAt: time.Now().Add(remindWithin), Open: time.Hour, PayAfter: time.Hour, Reserve: true,
		Drafted: func(item string) error { // the reminders are made as soon as it is published
			_, err := db.Exec(ctx, `
				WITH added AS (
					INSERT INTO account.users (id, phone) OVERRIDING SYSTEM VALUE
					SELECT i, '+8613' || lpad(i::text, 9, '0') FROM generate_series($1::bigint, $1 + $2 - 1) i RETURNING id)
				INSERT INTO seckill.reservations (item_id, user_id) SELECT $3, id FROM added`, s.rig.Users(shoppers), shoppers, item)
			return err
		},
	})
	return err
}
