package plan

import (
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/identity/humancheck"
)

// Complete lists what the plan itself lacks.
func (b *Activity) Complete(cfg Config, at time.Time) Flaws {
	var f Flaws
	f.Add(len(b.Sessions) > 0, "sessions", nil,
		fault.T("An activity needs a session before it is published.", "发布前至少需要一个场次。"))
	items := 0
	for i := range b.Sessions {
		t := &b.Sessions[i]
		location := SessionSubject(t.ID)
		items += len(t.Items)
		f.Add(len(t.Items) > 0, location, nil,
			fault.T(`Session "{name}" has no item.`, "场次“{name}”没有商品。", "name", t.Name))
		f.Add(t.ClosesAt.After(at), location, t.ClosesAt,
			fault.T(`Session "{name}" is already over.`, "场次“{name}”已经结束。", "name", t.Name))
	}
	f.Add(items <= MaxItems, "sessions", items,
		fault.T("An activity has {most} items at most.", "一个活动最多 {most} 件商品。", "most", MaxItems))
	f.Add(b.HumanCheck != string(humancheck.Verifier) || cfg.Verifier, "human_check", b.HumanCheck,
		fault.T("No verifier is set up on this server: choose another human check, or start the server with "+
			"--verifier-url.",
			"服务器未配置第三方人机验证，请选择其他验证方式。"))
	return f
}

// Payable refuses prices that shoppers could not pay on this server, and
// payment windows that a provider in use cannot keep. It is checked at
// publication and at every edit after it.
func (b *Activity) Payable(cfg Config) (f Flaws) {
	currency := ""
	for i := range b.Sessions {
		session := &b.Sessions[i].SeckillSession
		for j := range b.Sessions[i].Items {
			item := &b.Sessions[i].Items[j]
			free := item.SalePrice == 0 && b.Checkout.Freight == 0
			f.Add(b.Checkout.Freight == 0 || currency == "" || item.Currency == currency, inventory.ItemSubject(item.ID), item.Currency,
				fault.T(`The freight is one amount for all items of the activity, so they need one currency; "{item}" has another than those before it.`,
					"运费对整个活动统一收取，商品须为同一货币：“{item}”与前面的不同。", "item", item.Title))
			currency = item.Currency
			f.Add(free || cfg.CanPay, inventory.ItemSubject(item.ID), item.SalePrice,
				fault.T(`No payment provider is set up on this server, so shoppers could not pay for "{item}": give it a sale price of 0 and its activity no freight, or start the server with a provider (--sandbox-bank for testing).`,
					"服务器未配置支付渠道，顾客无法支付“{item}”：请配置支付渠道，或将价格与运费设为 0。", "item", item.Title))
		}
		window := PayWindow(&b.SeckillActivity, session)
		f.Add(window >= cfg.ShortestPayWindow, SessionSubject(session.ID), window.String(),
			fault.T(`A payment provider in use needs {least} to take a payment; the window of session "{session}" is {window}.`,
				"支付渠道要求付款时限至少 {least}，场次“{session}”为 {window}。",
				"least", cfg.ShortestPayWindow, "session", session.Name, "window", window))
	}
	return f
}
