package orderoffice

import (
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

const (
	pickups = "/admin/pickups"
	stores  = "/admin/stores"
	coupons = "/admin/coupons"
)

var shopMenu = []kit.Entry{
	{Path: pickups, Name: kit.Text{"Pickup", "自提核销"}, Role: auth.Operator},
	{Path: coupons, Name: kit.Text{"Coupons", "优惠券"}, Role: auth.Viewer, Later: true},
	{Path: stores, Name: kit.Text{"Stores", "门店"}, Role: auth.Viewer, Later: true},
}

var shopPages = []kit.Page{
	{Path: pickups, Title: kit.Text{"Pickup", "自提核销"}, Role: auth.Operator, Template: "pickups.html"},
	{Path: stores, Title: kit.Text{"Stores", "门店"}, Role: auth.Viewer, Template: "stores.html", Reads: []kit.Read{{Name: "doc", Path: "/api/v1/admin/stores", Query: true}}},
	{Path: coupons, Title: kit.Text{"Coupons", "优惠券"}, Role: auth.Viewer, Template: "coupons.html", Reads: []kit.Read{{Name: "doc", Path: "/api/v1/admin/coupons", Query: true}}, Filters: []kit.Field{
		{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: []string{"draft", "active", "stopped"}},
	}},
}

var place = []kit.Field{
	{Name: "name", Label: kit.Text{"Name", "名称"}, Required: true, Max: 120},
	{Name: "address", Label: kit.Text{"Address", "地址"}, Required: true, Max: 300},
	{Name: "phone", Label: kit.Text{"Phone", "电话"}, Max: 32},
	{Name: "hours", Label: kit.Text{"Opening hours", "营业时间"}, Max: 120},
}

var shopForms = []kit.Act{
	{
		Path: pickups + "/hand-over", API: "POST /api/v1/admin/pickups", Role: auth.Operator,
		Title: kit.Text{"Redeem code", "核销"}, Done: kit.Text{"Code valid, order completed. Hand over the goods.", "提货码正确，订单已完成，请交付商品。"},
		Warning: kit.Text{"Enter the shopper's pickup code.", "请输入顾客出示的提货码。"},
		Fields:  []kit.Field{{Name: "code", Label: kit.Text{"Pickup code", "提货码"}, Required: true, Max: 32}},
	},
	{
		Path: stores + "/add", API: "POST /api/v1/admin/stores", Role: auth.Operator, On: stores,
		Title: kit.Text{"Add a store", "添加门店"}, Done: kit.Text{"Store added and open.", "门店已添加并营业。"}, Fields: place,
	},
	{
		Path: stores + "/{id}/edit", API: "PUT /api/v1/admin/stores/{id}", Role: auth.Operator,
		Title: kit.Text{"Edit", "修改"}, Done: kit.Text{"Store saved.", "门店已修改。"},
		Fields: append([]kit.Field{{Name: "version", Kind: kit.Whole, Hidden: true}, {Name: "open", Label: kit.Text{"Available for pickup", "顾客可选"}, Kind: kit.Tick, Blank: false}}, place...),
	},
	{
		Path: stores + "/{id}/delete", API: "DELETE /api/v1/admin/stores/{id}", Role: auth.Operator,
		Title: kit.Text{"Delete", "删除"}, Done: kit.Text{"The store is deleted.", "门店已删除。"}, Dangerous: true,
		Warning: kit.Text{"Only stores without orders can be deleted. Close the store instead.", "只能删除没有订单的门店，其他请停止营业。"},
	},
}
