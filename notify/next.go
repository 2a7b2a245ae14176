package notify

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"upgrade-required": {"Connect by WebSocket, or poll GET /api/v1/orders/{no}.", "请使用 WebSocket 连接，或改用订单查询接口轮询。"},
	})
}
