package rush

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func TestSoldOutWhenAllIsPaid(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it})
	p, a := i.buy(1, it)
	a.want(t, "", http.StatusAccepted, "")
	y.SettleAll(1)
	y.Pay(parse(t, p.OrderNo))
	for range 2 { // by Redis, then by the flag
		req := httptest.NewRequest(http.MethodPost, i.issue(2, it, 1).RushURL, nil)
		req.Header.Set("Accept-Language", "zh-CN,zh;q=0.9")
		if a := i.do(req); a.Status != http.StatusGone || a.Code != "sold-out" || a.Title != "已售罄" {
			t.Fatalf("%+v", a)
		}
		mustBeUp(t, i, it, outSoldOut)
	}
}

// A fenced item requests a Load, and sells again once it is loaded.
func TestFencedItemIsHealed(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it})
	held, a := i.buy(1, it)
	a.want(t, "", http.StatusAccepted, "")
	y.SettleAll(1)
	require.NoError(t, y.Redis.FlushDB(t.Context()).Err())
	p := i.issue(2, it, 1)
	if a := i.send(p.Path); a.Status != http.StatusServiceUnavailable || a.Code != "fenced" || a.RetryAfter != "1" {
		t.Fatalf("without its keys: %+v", a)
	}
	select {
	case id := <-i.listing.Fenced():
		require.NoError(t, y.Stock.Load(t.Context(), id))
	case <-time.After(30 * time.Second): // the lane requests the check just after it has answered
		t.Fatal("no Load of the item was requested")
	}
	i.send(p.Path).want(t, "after the Load", http.StatusAccepted, "")
	if a := i.send(held.Path); a.Status != http.StatusAccepted || a.OrderNo != held.OrderNo {
		t.Fatalf("the earlier buyer: %+v", a)
	}
	if st := i.state(it); st.Remaining != 3 {
		t.Fatalf("%d left, want 3", st.Remaining)
	}
}
