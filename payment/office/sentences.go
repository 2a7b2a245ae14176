package office

// sentences are the Chinese of what a preflight finds at the payment providers, and of a refused refund.
var sentences = map[string]string{
	"The sandbox bank is one of the payment methods: it takes no real money.":     "付款方式中有沙箱银行，不会真实收款。",
	"At most %s can still be refunded; refunds that were asked for before count.": "最多还可退 %s（已扣除此前申请的退款）。",
	"No usable answer: %v.":               "没有可用的响应：%s。",
	"Ready, for payment windows from %s.": "可用，付款时限至少 %s。",
}
