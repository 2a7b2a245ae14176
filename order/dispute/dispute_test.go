package dispute

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/require"
)

// Both sides write in turns until the shop closes it; each change is an event, the
// shop's are audited, and nothing can be written afterwards.
func TestCourseOfADispute(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order, no := s.opened(7)
	shopper := func(user int64) auth.Principal { return auth.Principal{UserID: user, Role: auth.Shopper} }
	staff := auth.Principal{UserID: operator, Role: auth.Operator}
	opening, replies := "orders/"+order.String()+"/disputes", "disputes/"+no+"/replies"
	answers, closing := "admin/disputes/"+no+"/answers", "admin/disputes/"+no+"/close"
	for _, tt := range []struct {
		name       string
		as         auth.Principal
		path, body string
		want       string
	}{
		{"a second one", shopper(7), opening, `{"reason":"x"}`, "dispute-open"},
		{"of a stranger's order", shopper(8), opening, `{"reason":"x"}`, "not-found"},
		{"of a stranger's order in one's bucket", shopper(twin(7)), opening, `{"reason":"x"}`, "not-found"},
		{"a stranger's reply", shopper(8), replies, `{"text":"x"}`, "not-found"},
		{"a viewer's answer", auth.Principal{UserID: operator, Role: auth.Viewer}, answers, `{"text":"x"}`, "forbidden"},
		{"an answer", staff, answers, `{"text":"请发照片"}`, "answered"},
		{"the same again", staff, answers, `{"text":"请发照片"}`, "answered"},
		{"a reply", shopper(7), replies, `{"text":"已发\n第二行"}`, "open"},
		{"a reply with a minted token", auth.Principal{UserID: 7, Role: auth.Shopper, Act: auth.ByCLI}, replies, `{"text":"by phone"}`, "open"},
		{"the end", staff, closing, `{"reason":"尺码无误"}`, "closed"},
		{"the end again", staff, closing, `{"reason":"尺码无误"}`, "closed"},
		{"another operator's", auth.Principal{UserID: operator + 1, Role: auth.Operator}, closing, `{"reason":"尺码无误"}`, "dispute-closed"},
		{"another end", staff, closing, `{"reason":"x","refund":{}}`, "dispute-closed"},
		{"an answer after it", staff, answers, `{"text":"x"}`, "dispute-closed"},
		{"a reply after it", shopper(7), replies, `{"text":"x"}`, "dispute-closed"},
	} {
		// The key is the text, so that repeating an answer is a repetition.
		s.as(tt.as, http.MethodPost, tt.path, tt.body, "Idempotency-Key", fmt.Sprintf("%x", tt.body)).want(t, tt.name, tt.want)
	}
	require.Equal(t, "refunds", s.refunds.Load(), 0)
	want := "events.dispute.opened open, events.dispute.answered answered, events.dispute.replied open, events.dispute.replied open, events.dispute.closed closedno_refund"
	require.Equal(t, "events", strings.Join(s.events(order), ", "), want)
	list := s.shopper(7, http.MethodGet, "orders/"+order.String()+"/disputes", "")
	raw, _ := json.Marshal(list.doc["data"])
	for _, part := range []string{`"by":"shop"`, `"by":"shopper"`, `"by":"minted token"`, `"outcome":"no_refund"`, "请发照片", "尺码无误"} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("the shopper reads %s, without %s", raw, part)
		}
	}
	if strings.Contains(string(raw), `operator`) {
		t.Errorf("the shopper reads who answered: %s", raw)
	}
	s.shopper(8, http.MethodGet, "orders/"+order.String()+"/disputes", "").want(t, "a stranger", "not-found")
	detail := s.staff(http.MethodGet, "disputes/"+no, "")
	if raw, _ := json.Marshal(detail.doc["texts"]); strings.Count(string(raw), `"operator":"9000001"`) != 2 || detail.text("closed_by") != "9000001" || detail.text("opened_by") != "shopper" {
		t.Errorf("the operator reads %v", detail.doc)
	}
	actions, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "dispute " + no})
	require.NoError(t, err)
	var audited []string
	for _, e := range actions {
		var d struct{ Before, After struct{ Status string } }
		require.NoError(t, json.Unmarshal(e.Detail, &d))
		audited = append(audited, e.Action+" "+d.Before.Status+" "+d.After.Status)
	}
	require.Equal(t, "audited", audited, []string{"dispute.close open closed", "dispute.answer open answered"})
}

// Orders in other states, and texts that cannot be kept or read, are refused.
func TestWhatCanBeDisputed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for status, want := range map[string]string{
		orderevent.StatusPending: "order-not-disputable", orderevent.StatusPaid: "open", orderevent.StatusCompleted: "open",
		orderevent.StatusClosed: "order-not-disputable", orderevent.StatusRefused: "order-not-disputable", orderevent.StatusRefunding: "order-not-disputable",
		orderevent.StatusRefunded: "order-not-disputable", orderevent.StatusRefundFailed: "open",
	} {
		user := int64(len(status)) + 100
		no := s.order(user, status)
		s.shopper(user, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":"x"}`).want(t, status, want)
		s.exec(`DELETE FROM orders.orders WHERE order_no = $1`, no) // one live order per item
	}
	no := s.order(7, orderevent.StatusPaid)
	for name, text := range map[string]string{
		"nothing visible": `" \n "`, "U+0000": `"a\u0000b"`, "a tab": `"a\tb"`, "not UTF-8": "\"a\xff\"", "U+FFFD": `"a\ufffd"`,
		"a separator": `"a\u2028b"`, "too long": `"` + strings.Repeat("长", 501) + `"`, "empty": `""`,
	} {
		if a := s.shopper(7, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":`+text+`}`); a.says() != "invalid" && a.says() != "bad-request" {
			t.Errorf("%s: %d %v", name, a.status, a.doc)
		}
	}
	for _, path := range []string{"orders/x/disputes", "orders/" + ids.NewFor(7).String() + "/disputes"} {
		s.shopper(7, http.MethodPost, path, `{"reason":"x"}`).want(t, path, "not-found")
	}
	again := func() answer {
		return s.shopper(7, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":"又一次"}`)
	}
	for range maxDisputes {
		s.staff(http.MethodPost, "disputes/"+again().text("dispute_no")+"/close", `{"reason":"x"}`).want(t, "close", "closed")
	}
	again().want(t, "one dispute too many", "dispute-limit")
}

// Of concurrent requests to open one dispute one succeeds; of concurrent closings with
// a refund one requests it, and the others return what it did.
func TestDisputesAtOneMoment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order := s.order(7, orderevent.StatusPaid)
	var opened, closed atomic.Int64
	var no atomic.Value
	atOnce := func(do func()) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(do)
		}
		wg.Wait()
	}
	atOnce(func() {
		if a := s.shopper(7, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"x"}`); a.status == http.StatusCreated {
			opened.Add(1)
			no.Store(a.text("dispute_no"))
		} else if a.says() != "dispute-open" {
			t.Errorf("open: %d %v", a.status, a.doc)
		}
	})
	require.Equal(t, "disputes opened", opened.Load(), 1)
	path := "disputes/" + no.Load().(string) + "/close"
	atOnce(func() {
		if a := s.staff(http.MethodPost, path, `{"reason":"退款","refund":{"amount":{"amount":40,"currency":"CNY"}}}`); a.says() == "closed" {
			closed.Add(1)
		} else {
			t.Errorf("close: %d %v", a.status, a.doc)
		}
	})
	a := s.staff(http.MethodPost, path, `{"reason":"退款","refund":{"amount":{"amount":40,"currency":"CNY"}}}`)
	if a.says() != "closed" || a.text("outcome") != "refund" || a.text("refund_no") == "" || closed.Load() != 8 || s.refunds.Load() != 1 {
		t.Errorf("%d closed, %d refunds, then %d %v", closed.Load(), s.refunds.Load(), a.status, a.doc)
	}
}

// A refund that is refused leaves the dispute as it was, and so does one that comes after
// another operator has closed the dispute without.
func TestRefundThatClosesADispute(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order, no := s.opened(7)
	withRefund := func() answer {
		return s.staff(http.MethodPost, "disputes/"+no+"/close", `{"reason":"退款","refund":{}}`)
	}
	s.refused = fault.New(fault.Conflict, "refund-exceeds", fault.T("x", "x"),
		fault.T("x.", "仅供测试。"),
		fault.T("Refund no more than the amount in left.", "请将金额改为不超过可退余额。"))
	withRefund().want(t, "refused refund", "refund-exceeds")
	if a := s.staff(http.MethodGet, "disputes/"+no, ""); a.says() != "open" || a.text("waiting_from") == "" {
		t.Errorf("after it: %v", a.doc)
	}
	s.hold = make(chan struct{})
	done := make(chan answer)
	go func() {
		defer close(done)
		done <- withRefund()
	}()
	<-s.hold
	s.refused = nil
	s.call(operator+1, auth.Operator, http.MethodPost, "admin/disputes/"+no+"/close", `{"reason":"不退"}`).want(t, "without a refund meanwhile", "closed")
	s.hold <- struct{}{}
	(<-done).want(t, "with one afterwards", "dispute-closed")
	require.Equal(t, "refunds", s.refunds.Load(), 0)
	require.Equal(t, "events", s.events(order), []string{"events.dispute.opened open", "events.dispute.closed closedno_refund"})
}

// Operators list by state, page by page.
func TestListOfDisputes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var nos []string
	for user := range int64(5) {
		_, no := s.opened(user + 1)
		nos = append(nos, no)
	}
	s.staff(http.MethodPost, "disputes/"+nos[1]+"/answers", `{"text":"x"}`)
	s.staff(http.MethodPost, "disputes/"+nos[2]+"/close", `{"reason":"x"}`)
	for query, want := range map[string][]string{
		"limit=2": {nos[4], nos[3]}, "cursor=" + nos[3]: {nos[2], nos[1], nos[0]}, "status=open": {nos[4], nos[3], nos[0]}, "status=answered": {nos[1]},
	} {
		a := s.staff(http.MethodGet, "disputes?"+query, "")
		data, _ := a.doc["data"].([]any)
		var got []string
		for _, d := range data {
			got = append(got, d.(map[string]any)["dispute_no"].(string))
		}
		require.Equal(t, query, got, want)
	}
}

func TestUnansweredDisputesAreAnAlarm(t *testing.T) {
	t.Parallel()
	s := setup(t)
	probe := s.Probes()[0]
	require.Equal(t, "the probe's alarm", probe.Alarm.Code, alarmUnanswered.Code)
	finds := func(want int) {
		t.Helper()
		if found, err := probe.Look(t.Context()); err != nil || len(found) != want {
			t.Fatalf("found %+v, %v; want %d", found, err, want)
		}
	}
	_, no := s.opened(7)
	finds(0)
	s.exec(`UPDATE orders.disputes SET waiting_since = now() - interval '49 hours'`)
	finds(1)
	s.shopper(7, http.MethodPost, "disputes/"+no+"/replies", `{"text":"还在吗"}`)
	finds(1)
	s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"x"}`)
	finds(0)
}

// A shopper writes so many texts and no more; the shop can still answer and close.
func TestTextsOfADisputeAreBounded(t *testing.T) {
	t.Parallel()
	s := setup(t)
	_, no := s.opened(7)
	s.exec(`INSERT INTO orders.dispute_texts (bucket, dispute_no, line, text)
		SELECT d.bucket, d.dispute_no, n, 'x' FROM orders.disputes d, generate_series(1, $1) n`, maxTexts-1)
	for i, want := range []string{"open", "dispute-limit"} {
		s.shopper(7, http.MethodPost, "disputes/"+no+"/replies", `{"text":"x"}`).want(t, fmt.Sprint("reply ", maxTexts+i), want)
	}
	s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"x"}`).want(t, "an answer after it", "answered")
	s.staff(http.MethodPost, "disputes/"+no+"/close", `{"reason":"x"}`).want(t, "the end after it", "closed")
}
