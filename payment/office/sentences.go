package office

// sentences are the Chinese of what a preflight finds at the payment providers.
var sentences = map[string]string{
	"The sandbox bank is one of the payment methods: it takes no real money.": "付款方式中有沙箱银行，不会真实收款。",
	"No usable answer: %v.":               "没有可用的响应：%s。",
	"Ready, for payment windows from %s.": "可用，付款时限至少 %s。",
}
