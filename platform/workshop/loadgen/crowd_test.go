package loadgen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// shop is a fake server with the part of the API that a crowd uses: it has some
// units, and answers all-held to the other shoppers.
type shop struct {
	mu      sync.Mutex
	units   int
	hot     map[string]bool // paths that were answered too-hot once
	orders  map[string]int  // polls by number
	rushed  map[string]int
	denies  bool           // the shop no longer knows any number
	unclear bool           // the first rush of every path is answered "unknown"
	unsure  bool           // every rush is answered "unknown"
	later   string         // the code that the first rush of every path is answered with, and when to come again
	leaves  bool           // it disconnects when all units are held
	aborts  int            // rushes that end without an answer, before all others
	base    string         // for the bank's address
	paid    map[string]int // payments by number

	doorOfShop // see door_test.go
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaves && s.units == 0 {
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	if s.aborts > 0 && strings.HasPrefix(r.URL.Path, "/api/v1/rush/") {
		s.aborts--
		panic(http.ErrAbortHandler)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/"); {
	case parts[0] == "items" && len(parts) == 2:
		_ = json.NewEncoder(w).Encode(s.item(parts[1]))
	case parts[0] == "items" && parts[2] != "rush-path":
		s.atDoor(w, r, parts[2], token)
	case parts[0] == "items" && s.asksWork && !s.reserves && !s.proved(r, "rush", token):
		refuse(w, http.StatusForbidden, "human-check-required")
	case parts[0] == "items" && s.reserves && !s.reserved[token]:
		refuse(w, http.StatusForbidden, "no-reservation-held")
	case parts[0] == "items":
		user, _ := strconv.ParseInt(token, 10, 64)
		no := ids.NewFor(user)
		_, _ = fmt.Fprintf(w, `{"path": "p-%s", "order_no": "%s"}`, no, no)
	case parts[0] == "rush":
		s.rush(w, strings.TrimPrefix(parts[1], "p-"))
	case parts[0] == "orders" && len(parts) == 3:
		way := "pay_url"
		if len(s.orders)%2 == 0 { // a method that shows a code
			way = "qr_code"
		}
		_, _ = fmt.Fprintf(w, `{%q:"%s/api/v1/bank/%s"}`, way, s.base, parts[1])
	case parts[0] == "bank":
		s.paid[parts[1]]++
	case parts[0] == "orders":
		no := parts[1]
		s.orders[no]++
		if s.denies {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"not-entered"}`))
			return
		}
		if s.orders[no] == 1 {
			_, _ = w.Write([]byte(`{"order_no":"` + no + `","status":"queued","position":3,"poll_after_ms":1}`))
			return
		}
		status := "pending_payment"
		if s.paid[no] > 0 {
			status = "paid"
		}
		_, _ = w.Write([]byte(`{"order_no":"` + no + `","status":"` + status + `"}`))
	}
}

func (s *shop) rush(w http.ResponseWriter, no string) {
	s.rushed[no]++
	switch {
	case s.unsure, s.unclear && s.rushed[no] == 1:
		refuse(w, http.StatusServiceUnavailable, "unknown")
	case s.later != "" && s.rushed[no] == 1:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, s.later)
	case s.hot != nil && !s.hot[no]:
		s.hot[no] = true
		refuse(w, http.StatusTooManyRequests, "too-hot")
	case s.units == 0:
		refuse(w, http.StatusConflict, "all-held")
	default:
		s.units--
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"order_no":"%s","status":"queued","position":5,"poll_after_ms":1}`, no)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"title":"no","code":"%s"}`, code)
}

func open(t *testing.T, s *shop) string {
	t.Helper()
	s.reserved, s.used = map[string]bool{}, map[string]bool{}
	s.orders, s.rushed, s.paid = map[string]int{}, map[string]int{}, map[string]int{}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.base = srv.URL
	return srv.URL
}

func mint(user int64) (string, error) { return strconv.FormatInt(user, 10), nil }

// TestCrowdBuysAllUnits goes through a crowd's life: paths, attempts, retries,
// orders, and the client log.
func TestCrowdBuysAllUnits(t *testing.T) {
	t.Parallel()
	s := &shop{units: 7, hot: map[string]bool{}, unclear: true}
	c := NewCrowd(CrowdConfig{BaseURL: open(t, s), ItemID: 1, Shoppers: 50, FirstUser: 100, Connections: 8, Token: mint})
	defer c.Close()
	if f := c.FetchPaths(t.Context()); f.Issued != 50 || len(f.Refused) != 0 || f.Took.Count != 50 || f.Took.P99 <= 0 || f.PerSecond <= 0 {
		t.Fatalf("%+v", f)
	}
	if v := c.Fire(t.Context()); v.Sent != 50 || v.Answers["too-hot"] != 50 || v.Refusal.Count != 50 {
		t.Fatalf("%+v", v)
	}
	v := c.FireAgain(t.Context(), "too-hot")
	if v.Sent != 50 || v.Granted != 7 || v.Grant.Count != 7 || v.Answers["queued"] != 7 || v.Answers["all-held"] != 43 {
		t.Fatalf("%+v", v)
	}
	if again := c.FireAgain(t.Context(), "all-held"); again.Sent != 43 || again.Granted != 0 {
		t.Fatalf("%+v", again)
	}
	var winners []int
	for i, e := range c.Entries(100) {
		if e.Answer == answerQueued {
			winners = append(winners, i)
		}
	}
	require.Equal(t, "outcomes", c.Ask(t.Context(), winners), map[string]int64{"pending_payment": 7})
	told := map[string]int{}
	for i, e := range c.Entries(100) {
		if e.UserID != int64(100+i) || e.OrderNo.Bucket() != ids.Bucket(e.UserID) {
			t.Errorf("entry %d: %+v", i, e)
		}
		told[e.Answer+" "+e.Status]++
	}
	if told["queued pending_payment"] != 7 || told["all-held "] != 43 {
		t.Fatalf("%v", told)
	}
}

// TestCrowdRepeatsAttempts sends a few shoppers' paths many times, and checks
// which winners were answered last.
func TestCrowdRepeatsAttempts(t *testing.T) {
	t.Parallel()
	s := &shop{units: 25}
	base := open(t, s)
	c := NewCrowd(CrowdConfig{BaseURL: base, ItemID: 1, Shoppers: 10, FirstUser: 100, Connections: 4, Token: mint})
	defer c.Close()
	c.FetchPaths(t.Context())
	r := c.Repeat(25, base)
	defer r.Close()
	if f := r.FetchPaths(t.Context()); f.Issued != 0 || r.RushTarget(13) != c.RushTarget(3) {
		t.Fatalf("%+v, %s, want the paths of the others", f, r.RushTarget(13))
	}
	if v := r.Fire(t.Context()); v.Sent != 25 || v.Granted != 25 {
		t.Fatalf("%+v", v)
	}
	last := r.Last()
	if len(last) == 0 || len(last) > 4 {
		t.Fatalf("%d attempts were in flight on 4 connections when the last was sent", len(last))
	}
	for no, n := range s.rushed {
		if n < 2 || n > 3 {
			t.Errorf("%s was sent %d times", no, n)
		}
	}
}

// TestRunPaysForTheShare follows every winner to the order, and the configured share
// to the payment, each paid once, with more payers than may pay at the same time.
func TestRunPaysForTheShare(t *testing.T) {
	t.Parallel()
	s := &shop{units: 200}
	cfg := playOf(open(t, s))
	cfg.Shoppers, cfg.PayShare, cfg.followed = 260, 0.75, 20 // the other winners wait for places
	rep, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	if rep.Answers["queued"] != 200 || rep.Answers["all-held"] != 60 || rep.Outcomes["paid"] != 150 || rep.Outcomes["pending_payment"] != 50 ||
		len(rep.Troubles) != 0 || len(rep.Violations) != 0 {
		t.Fatalf("%+v", rep)
	}
	if l := rep.Latency["order visible"]; l.Count != 200 || rep.AllVisible <= 0 || len(rep.Entries) != 260 {
		t.Errorf("%+v", rep)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for no, n := range s.paid {
		require.Equal(t, fmt.Sprintf("payments of the order %s", no), n, 1)
	}
}

func TestRunReportsALostNumber(t *testing.T) {
	t.Parallel()
	s := &shop{units: 1, denies: true}
	cfg := playOf(open(t, s))
	cfg.Shoppers = 1
	rep, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	if len(rep.Violations) == 0 || rep.Outcomes["still queued"] != 1 {
		t.Fatalf("%+v", rep)
	}
}

// TestMembersAreFound checks documents as servers write them; members must not
// be guessed.
func TestMembersAreFound(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"code":"all-held"}`:                 "all-held",
		"{\n  \"code\" : \"x\",\n \"a\": 1 }": "x",
		`{"decode":"no","code":"yes"}`:        "yes",
		`{"code":"a\"b"}`:                     "", // escapes are not decoded, so not accepted
		`{"code":3}`:                          "",
		`{"code"`:                             "",
		``:                                    "",
	} {
		got, _ := textMember([]byte(doc), `"code"`)
		require.Equal(t, doc, string(got), want)
	}
	if n, ok := numberMember([]byte(`{"position": 12, "x":1}`), `"position"`); !ok || n != 12 {
		t.Errorf("%d %v", n, ok)
	}
	if _, ok := numberMember([]byte(`{"position": -1}`), `"position"`); ok {
		t.Error("a negative number was accepted")
	}
}

// TestAlreadyBoughtNamesItsNumber: the client log has the number that the answer
// names, which verify looks up.
func TestAlreadyBoughtNamesItsNumber(t *testing.T) {
	t.Parallel()
	own, held := ids.NewFor(1), ids.NewFor(1)
	for body, want := range map[string]ids.ID{
		`{"code":"already-bought","order_no":"` + held.String() + `"}`: held,
		`{"code":"already-bought"}`:                                    own,
	} {
		require.Equal(t, body, numberOr(own, []byte(body)), want)
	}
}
