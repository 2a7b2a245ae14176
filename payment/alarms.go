package payment

import (
	"context"
	"sync"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
)

// The alarms about money.
var (
	alarmMismatch = alarm.Define("payment-mismatch", alarm.Critical,
		fault.T("A provider reported a payment, a refund or a chargeback in another sum or currency than the shop's books have. No order was paid by it.",
			"支付渠道上报的付款、退款或拒付，其金额或币种与账本不一致，未因此将任何订单标记为已支付。"),
		fault.T("Compare it with the provider's statement. A payment that arrived is refunded automatically once the provider confirms it; "+
			"about a refund or a chargeback, ask the provider.",
			"与支付渠道账单核对。已到账的付款在渠道确认后自动退回；退款或拒付请向支付渠道查询。"))
	alarmUnknown = alarm.Define("payment-unknown", alarm.Critical,
		fault.T("A provider reports money under a number that is not ours.",
			"支付渠道上报了一笔款项，其单号不属于本商城。"),
		fault.T("Find it in the provider's statement and refund it there.",
			"在支付渠道账单中找到该笔款项，并在渠道后台退款。"))
	alarmForeignMerchant = alarm.Define("payment-foreign-merchant", alarm.Critical,
		fault.T("A provider signed a message for another merchant with our key.",
			"支付渠道用本商城的密钥签名了另一商户的消息。"),
		fault.T("Compare the merchant number in the settings with the provider's.",
			"核对设置中的商户号与支付渠道是否一致。"))
	alarmTransactionReused = alarm.Define("payment-transaction-reused", alarm.Critical,
		fault.T("A provider gave two movements one transaction number; the second movement is not in the ledger.",
			"支付渠道为两笔资金变动给出了同一交易号，第二笔未记入账本。"),
		fault.T("Ask the provider which of the two is real, and have it correct the other.",
			"请支付渠道确认哪一笔是真实的，并更正另一笔。"))
	alarmForged = alarm.Define("payment-callbacks-forged", alarm.Warning,
		fault.T("Many callbacks came within a minute that the provider did not sign, or that cannot be read. Each was refused and changed nothing.",
			"一分钟内收到大量没有支付渠道签名或无法读取的回调，已全部拒绝，没有造成任何变化。"),
		fault.T("If the address in the detail is the provider's, its key has changed: compare the keys in the settings with the provider's; until then payments are found by queries, minutes later. Otherwise block the address at the proxy.",
			"若详情中的地址属于支付渠道，说明其密钥已更换：请核对设置中的密钥，在此之前通过查询确认付款，会晚几分钟。否则请在代理上屏蔽该地址。"))
	alarmProviderMissing = alarm.Define("payment-provider-missing", alarm.Critical,
		fault.T("Payments or refunds are open at a provider that is no longer configured.",
			"有付款或退款尚未完成，但其支付渠道已不在配置中。"),
		fault.T("Configure the provider again until they are settled.",
			"重新配置该支付渠道，直到相关款项处理完毕。"))
	alarmProviderFailing = alarm.Define("payment-provider-failing", alarm.Critical,
		fault.T("Calls to a payment provider keep failing: shoppers cannot pay with it, and orders with an open payment are closed late.",
			"对某支付渠道的调用持续失败：顾客无法用它付款，有待确认付款的订单会延迟关闭。"),
		fault.T("Check the provider's status page and the log. Their units are not sold again meanwhile, so inform shoppers if the failure lasts.",
			"查看支付渠道的状态页和日志。期间这些商品不会再次售出，若持续故障请告知顾客。"))
	alarmUnanswered = alarm.Define("payment-closed-unanswered", alarm.Critical,
		fault.T("Orders were closed without their payment provider's word, because it gave none for as long as the settings allow. Shoppers may have paid.",
			"支付渠道在设置允许的时间内一直未给出结果，订单已关闭。顾客可能已经付款。"),
		fault.T("Check the provider. Once it answers, money that it took gets units of the item's backup or is refunded; compare its statement of the day afterwards.",
			"检查支付渠道。恢复后，已收的款项会使用备用库存补单或退款；事后请核对当日账单。"))
	alarmLate = alarm.Define("payment-late", alarm.Warning,
		fault.T("Money came for an order that was already closed, refused or paid. It is refunded automatically.",
			"订单已关闭、被拒或已支付后又收到款项，正在自动退款。"),
		fault.T("Do nothing about single cases. If they pile up, the payment window is too short for the provider, or its callbacks are late.",
			"个别情况无需处理。若大量出现，说明支付时限对该渠道过短，或其回调延迟。"))
	alarmRefundStuck = alarm.Define("refund-stuck", alarm.Warning,
		fault.T("A refund was attempted often and is still not done. Attempts go on.",
			"一笔退款多次尝试仍未完成，仍在继续尝试。"),
		fault.T("Read the refund's last_error and check whether the provider is reachable.",
			"查看退款的 last_error，并检查支付渠道是否可达。"))
)

// raise records an alarm outside any transaction, so that it survives the
// rollback that it is about.
func (g *gateway) raise(ctx context.Context, a *alarm.Definition, subject, detail string) {
	if err := a.Raise(ctx, g.deps.DB, subject, detail); err != nil {
		g.deps.Log.ErrorContext(ctx, "alarm not recorded", "code", string(a.Code), "subject", subject, "detail", detail, "error", err)
	}
}

// recordTimeout bounds how long recording the alarm about a provider, at most once a minute, may
// delay a shopper's request.
const recordTimeout = 2 * time.Second

const (
	// troubleAfter is how long every call to a provider must have failed before
	// the alarm is raised: longer than a deployment on its side takes.
	troubleAfter = 30 * time.Second
	// troubleCalls is how many calls must have failed in that time, so that one
	// bad payment does not raise an alarm about the provider.
	troubleCalls = 5
	// troubleEvery is how often the alarm is recorded again while the failure
	// lasts.
	troubleEvery = time.Minute
)

// trouble detects that a provider's calls keep failing. Safe for concurrent use.
type trouble struct {
	mu     sync.Mutex
	since  time.Time // of the first failure after the last answer
	calls  int       // failed since then
	raised time.Time
}

// answered notes that the provider answered, whatever the answer.
func (t *trouble) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.calls = time.Time{}, 0
}

// failed notes a call without an answer and reports whether to raise the alarm
// now.
func (t *trouble) failed(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = now
	}
	t.calls++
	if t.calls < troubleCalls || now.Sub(t.since) < troubleAfter || now.Sub(t.raised) < troubleEvery {
		return false
	}
	t.raised = now
	return true
}
