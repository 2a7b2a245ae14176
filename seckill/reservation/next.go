package reservation

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"no-reservation":       {"Request a rush path shortly before the opening.", "无需预约，请在开抢前获取抢购链接。"},
		"reservation-not-open": {"Come back at reservation_opens_at.", "请在预约开始后再来。"},
		"reservation-closed":   {"Look for another session of the activity.", "请关注活动的其他场次。"},
		"reservation-full":     {"Look for another session of the activity.", "预约名额已满，请关注其他场次。"},
		"no-reservation-held":  {"Reserve in time for another session.", "请提前预约其他场次。"},
		"ended":                {"Look for another session; an order that was granted stays payable.", "请关注其他场次；已抢到的订单仍可付款。"},
	})
}
