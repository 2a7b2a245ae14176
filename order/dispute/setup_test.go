package dispute

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const operator = 9_000_001

// bundle is disputes with their routes; refunds are counted, not made.
type bundle struct {
	*testing.T
	*Service
	db      *pgxpool.Pool
	router  *httpx.Router
	tokens  *auth.Tokens
	refunds atomic.Int64
	refused error
	hold    chan struct{} // if set, a refund sends and waits for an answer
}

func setup(t *testing.T) *bundle {
	t.Helper()
	s := &bundle{T: t, db: pgtest.DB(t), tokens: auth.NewTokens([]byte(strings.Repeat("key!", 8)), time.Now)}
	log := slog.New(slog.DiscardHandler)
	s.Service = New(Deps{DB: s.db, Wake: func() {}, Refund: func(ctx context.Context, r Refund, also func(context.Context, pgx.Tx, ids.ID) error) error {
		if r.By != operator || r.OrderNo.IsZero() || r.Note == "" {
			t.Errorf("refund requested as %+v", r)
		}
		if s.hold != nil {
			s.hold <- struct{}{}
			<-s.hold
		}
		if s.refused != nil {
			return s.refused
		}
		err := pg.InTx(ctx, s.db, func(tx pgx.Tx) error { return also(ctx, tx, ids.New()) })
		if err == nil {
			s.refunds.Add(1)
		}
		return err
	}})
	s.router = httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	s.Routes(s.router)
	return s
}

// order is an order of a user in a state.
func (s *bundle) order(user int64, status string) ids.ID {
	s.Helper()
	no := ids.NewFor(user)
	s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		VALUES ($1, $2, $3, $3, 1, 1, 1, 1, 100, 'CNY', 'mug', $4, now())`, no.Bucket(), no, user, status)
	return no
}

func (s *bundle) exec(sql string, args ...any) {
	s.Helper()
	pgtest.Exec(s, s.db, sql, args...)
}

type answer struct {
	status int
	doc    map[string]any
}

func (a answer) text(key string) string { v, _ := a.doc[key].(string); return v }

// says is the status of a dispute, or a problem's code.
func (a answer) says() string {
	if a.status < http.StatusBadRequest {
		return a.text("status")
	}
	return a.text("code")
}

// want requires that an answer says so; what names it.
func (a answer) want(t *testing.T, what, says string) {
	t.Helper()
	if a.says() != says {
		t.Errorf("%s: %d %v, want %s", what, a.status, a.doc, says)
	}
}

func (s *bundle) call(user int64, role auth.Role, method, path, body string, headers ...string) answer {
	s.Helper()
	return s.as(auth.Principal{UserID: user, Role: role}, method, path, body, headers...)
}

func (s *bundle) as(p auth.Principal, method, path, body string, headers ...string) answer {
	s.Helper()
	token := httpxtest.Token(s, s.tokens, p)
	a := httpxtest.Ask(s, s.router, token, method, "/api/v1/"+path, body, headers...)
	if a.Doc == nil {
		s.Errorf("%s %s: %s", method, path, a.Raw)
	}
	return answer{a.Status, a.Doc}
}

func (s *bundle) shopper(user int64, method, path, body string, headers ...string) answer {
	s.Helper()
	return s.call(user, auth.Shopper, method, path, body, headers...)
}

func (s *bundle) staff(method, path, body string, headers ...string) answer {
	s.Helper()
	return s.call(operator, auth.Operator, method, "admin/"+path, body, headers...)
}

// opened is a new dispute about a new paid order.
func (s *bundle) opened(user int64) (order ids.ID, dispute string) {
	s.Helper()
	order = s.order(user, orderevent.StatusPaid)
	a := s.shopper(user, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"收到的鞋码不对"}`)
	a.want(s.T, "open", disputeevent.StatusOpen)
	require.Equal(s, "status", a.status, http.StatusCreated)
	return order, a.text("dispute_no")
}

// events are the subjects of an order's events with the statuses in them.
func (s *bundle) events(order ids.ID) (list []string) {
	s.Helper()
	rows, err := s.db.Query(s.Context(), `SELECT subject, payload FROM platform.outbox WHERE position(convert_to($1, 'UTF8') IN payload) > 0 ORDER BY id`, order.String())
	require.NoError(s, err)
	defer rows.Close()
	for rows.Next() {
		var subject string
		var payload []byte
		var e disputeevent.Changed
		require.NoError(s, errors.Join(rows.Scan(&subject, &payload), json.Unmarshal(payload, &e)))
		list = append(list, subject+" "+e.Status+e.Outcome)
	}
	return list
}

// twin is another user whose numbers have the same bucket.
func twin(user int64) int64 {
	for other := user + 1; ; other++ {
		if ids.Bucket(other) == ids.Bucket(user) {
			return other
		}
	}
}
