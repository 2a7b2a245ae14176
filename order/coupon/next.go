package coupon

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"coupon-not-active":    {"Activate this coupon first, or choose an active one.", "请先启用该优惠券，或选择其他已启用的优惠券。"},
		"coupon-terms-fixed":   {"Stop this coupon and create another with the new terms.", "请停用该优惠券，再按新规则新建一张。"},
		"coupon-not-usable":    {"Choose one of GET /api/v1/coupons?order_no=…, or pay without.", "请选择可用于该订单的优惠券，或不使用优惠券付款。"},
		"coupon-not-claimable": {"Look at GET /api/v1/coupons/claimable.", "请查看当前可领取的优惠券。"},
		"coupons-gone":         {"Choose another coupon.", "请选择其他优惠券。"},
		"coupon-limit":         {"Use the one you have.", "请使用已领取的优惠券。"},
	})
}
