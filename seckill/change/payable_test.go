package change

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/seckill/plan"
)

// TestUnpayableItemsAreNotPublished checks that without a payment provider an
// item with a price is neither published nor added to a published activity, and
// that a free item is.
func TestUnpayableItemsAreNotPublished(t *testing.T) {
	t.Parallel()
	const said = "No payment provider is set up on this server, so shoppers could not pay for \\\"A phone\\\": give it a sale price of 0"
	d := setup(t).instance(func(cfg *plan.Config, _ *Deps) { cfg.CanPay = false })
	refused := func(what, method, path string, body any, location string) {
		t.Helper()
		tr := d.Traced(func() {
			r := d.As(auth.Operator, method, path, body)
			if r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), said) || !strings.Contains(string(r.Raw), `"`+location+`"`) {
				t.Errorf("%s: %d %s", what, r.Status, r.Raw)
			}
		})
		if tr.String() != "[] and 0 events" {
			t.Errorf("%s left %v", what, tr)
		}
	}
	s := d.Draft(time.Hour)
	refused("publishing", http.MethodPost, "/api/v1/admin/activities/"+s.Activity+"/publish", nil, "item "+s.Item)

	free := d.Publish(time.Hour, func(_, _, item map[string]any) { item["sale_price"] = map[string]any{"amount": 0, "currency": "CNY"} })
	price := `{"version":1,"sale_price":{"amount":1,"currency":"CNY"}}`
	refused("a price for what is published", http.MethodPatch, "/api/v1/admin/items/"+free.Item, price, "item "+free.Item)
	freight := `{"version":1,"checkout":{"ways":["delivery"],"address":"required","freight":8}}`
	refused("freight for what is published", http.MethodPatch, "/api/v1/admin/activities/"+free.Activity, freight, "item "+free.Item)
	d.Do(http.StatusOK, http.MethodPatch, "/api/v1/admin/items/"+free.Item, `{"version":1,"title":"A free phone"}`)
}

// TestServerWithoutAProviderWarns checks for the warning in the log at start.
func TestServerWithoutAProviderWarns(t *testing.T) {
	t.Parallel()
	y := setup(t)
	for canPay, want := range map[bool]int{true: 0, false: 1} {
		var log bytes.Buffer
		d := y.instance(func(cfg *plan.Config, deps *Deps) {
			cfg.CanPay, deps.Log = canPay, slog.New(slog.NewTextHandler(&log, nil))
		})
		d.Run(d.svc.runLifecycle)() // started and ended
		if n := strings.Count(log.String(), "no payment provider is set up"); n != want {
			t.Errorf("can pay %v: logged %d times:\n%s", canPay, n, &log)
		}
	}
}
