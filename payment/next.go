package payment

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"payment-unavailable": {"Try again in half a minute. If it persists, check the provider’s alarms.", "请半分钟后重试；若持续出现，请查看支付渠道告警。"},
	})
}
