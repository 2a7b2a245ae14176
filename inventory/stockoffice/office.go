// Package stockoffice describes the back office's page on which operators compare Redis with
// the books, and repair it. See platform/edge/office for how such a description becomes
// pages.
package stockoffice

import (
	"embed"
	"net/url"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

//go:embed *.html
var files embed.FS

const (
	page = "/admin/reconcile"
	api  = "/api/v1/admin/reconcile"
)

// Section is the module's part of the office.
func Section() kit.Section {
	filters := []kit.Field{{Name: "item_id", Label: kit.Text{"Item id", "仅此商品编号"}, Kind: kit.Whole}}
	return kit.Section{
		Files: files,
		Words: map[string]kit.Text{
			"done": {"Repaired", "已修复"}, "possible": {"Can be repaired", "可修复"}, "none": {"Needs a decision", "需人工处理"},
		},
		Menu: []kit.Entry{{Path: page, Name: kit.Text{"Stock check", "库存核对"}, Role: auth.Viewer, Later: true}},
		Pages: []kit.Page{
			{Path: page, Title: kit.Text{"Stock check", "库存核对"}, Role: auth.Viewer, Template: "reconcile.html", Filters: filters, Reads: []kit.Read{{Name: "doc", Path: api, Query: true}}},
		},
		Acts: []kit.Act{{
			Path: page + "/repair", API: "POST " + api, Role: auth.Operator, On: page,
			Title: kit.Text{"Repair safely", "修复可安全修复的差异"}, Done: kit.Text{"Safe repairs done. The remaining differences need a decision.", "可安全修复的差异已修复，其余需人工处理。"},
			Warning: kit.Text{"Redis is corrected to match Postgres. Differences marked as repairable are fixed.", "以 Postgres 为准修正 Redis，标为“可修复”的差异将被处理。"},
			Body:    func(url.Values, map[string]any) map[string]any { return map[string]any{"dry_run": false} },
		}},
	}
}
