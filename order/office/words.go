package office

import kit "stampede/platform/edge/office"

// words are the states and reasons of orders and disputes as operators read them.
var words = map[string]kit.Text{
	"pending_payment": {"Unpaid", "待付款"}, "paid": {"Paid", "已付款"}, "completed": {"Completed", "已完成"}, "closed": {"Closed", "已关闭"},
	"to_ship": {"To be shipped", "待发货"}, "to_pick_up": {"Ready for pickup", "待提货"}, "shipped": {"Shipped", "已发货"},
	"refused": {"Refused", "未成交"}, "refunding": {"Refunding", "退款中"}, "refunded": {"Refunded", "已退款"}, "refund_failed": {"Refund failed", "退款失败"},
	"duplicate": {"Duplicate", "重复"}, "shortfall": {"Not enough stock", "库存不足"}, "interrupted": {"Interrupted", "处理中断"}, "blocked": {"Blacklisted", "黑名单"},
	"timeout": {"Payment expired", "超时未付款"}, "canceled": {"Canceled by the shopper", "顾客取消"}, "withdrawn": {"Canceled by the shop", "店铺取消"},
	"backup": {"Paid late, from reserve stock", "逾期付款，使用备用库存"}, "taken-back": {"Refund returned by the bank", "退款被银行退回"},
	"open": {"Awaiting the shop", "待店铺处理"}, "answered": {"Awaiting the shopper", "待顾客回复"}, "refund": {"With a refund", "退款"}, "no_refund": {"Without a refund", "不退款"},
	"return": {"Restock", "退回库存"}, "write_off": {"Write off", "报损"},
	"draft": {"Draft", "草稿"}, "active": {"Active", "启用"}, "stopped": {"Stopped", "已停止"},
	"registration": {"New sign-ups", "新用户注册时"}, "reservation": {"Shoppers who reserved", "预约后"},
	"delivery": {"Delivery", "快递"}, "pickup": {"Pickup", "到店自提"},
	"cancel": {"Canceled", "取消订单"}, "complete": {"Completed", "确认完成"}, "ship": {"Sent", "发货"}, "note": {"Note", "备注"},
	"shopper": {"Shopper", "顾客"}, "system": {"System", "系统"}, "shop": {"Shop", "店铺"}, "minted token": {"Command-line token", "命令行令牌"},
}
