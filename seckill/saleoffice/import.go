package saleoffice

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/spreadsheet"
	kit "stampede/platform/edge/office"
)

const (
	templatePath = activities + "/template.csv"
	documentPath = "/admin/documents/{external_id}" // of an activity that another system of the shop plans
)

// importActs plan a whole sale from a file, or change one, all of it or nothing.
var importActs = []kit.Act{{
	Path: activities + "/import", API: "POST " + api + "/activities", On: activities, Then: activity, Make: imported,
	Title: kit.Text{"Import a sale", "导入活动"}, Button: kit.Text{"Import", "导入"}, Done: kit.Text{"Draft created from the file. Shoppers cannot see it until it is published.", "已按文件创建草稿，发布前顾客不可见。"},
	Warning: kit.Text{
		"A sheet (XLSX or CSV) has an item a line, times in the shop's zone and prices in yuan. If one line is wrong, nothing is imported.",
		"支持 XLSX、CSV：每行一个商品，时间按店铺时区、价格以元填写。任何一行有误则全部不导入。",
	},
	Before: kit.Entry{Path: templatePath, Name: kit.Text{"Download template", "下载模板"}},
	Fields: []kit.Field{
		{Name: "name", Label: kit.Text{"Sale name (a JSON file may contain it)", "活动名称（JSON 文件可自带名称）"}, Max: maxName},
		{Name: "file", Label: kit.Text{"File (XLSX, CSV or API JSON)", "文件（XLSX、CSV 或接口格式的 JSON）"}, Kind: kit.File, Required: true},
	},
}, {
	Path: documentPath, API: "PUT " + api + "/activities/by-external-id/{external_id}", On: activity, Make: document,
	When:  func(data map[string]any) bool { return kit.Inside(data, "activity.external_id") != nil },
	With:  kit.Values("external_id", "activity.external_id"),
	Title: kit.Text{"Replace with a document", "用文档更新"}, Button: kit.Text{"Upload", "上传"}, Done: kit.Text{"The sale is what the document says.", "活动已与文档一致。"},
	Warning: kit.Text{
		"The sale becomes exactly what the file says: sessions and items that it leaves out are removed. Download it, edit it, upload it.",
		"活动将与文件完全一致，文件中没有的场次和商品会被删除。请先下载，修改后再上传。",
	},
	Before: kit.Entry{Path: documentPath, Name: kit.Text{"Download document", "下载文档"}},
	Fields: []kit.Field{{Name: "file", Label: kit.Text{"File (JSON)", "文件（JSON）"}, Kind: kit.File, Required: true}},
}}

// imported is the sale that a file plans. where finds the line of what the API refuses.
func imported(c *kit.Call, form url.Values) (body map[string]any, where func(location string) string, err error) {
	return planIn(c, c.InZone(), form)
}

func planIn(c *kit.Call, zone *time.Location, form url.Values) (body map[string]any, where func(location string) string, err error) {
	name, file := strings.TrimSpace(form.Get("name")), form.Get("file")
	if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(file, "\ufeff")), "{") {
		if body, where, err = document(c, form); err == nil && name != "" {
			body["name"] = name
		}
		return body, where, err
	}
	rows, err := spreadsheet.Read(file)
	if err != nil {
		return nil, nil, c.Refuse(kit.Flaw{Location: "file", Message: c.In(spreadsheet.Says(err))})
	}
	s := planOf(c, zone, rows)
	if name == "" {
		s.flaws = append(s.flaws, kit.Flaw{Location: "name", Message: c.T("This field is required.", "必填。")})
	}
	if len(s.flaws) > 0 {
		return nil, nil, c.Refuse(s.flaws...)
	}
	return s.body(name), func(location string) string { return s.where(c, location) }, nil
}

// document is the JSON of a form's file, as the API takes it.
func document(c *kit.Call, form url.Values) (body map[string]any, where func(location string) string, err error) {
	decoder := json.NewDecoder(strings.NewReader(strings.TrimPrefix(form.Get("file"), "\ufeff")))
	decoder.UseNumber()
	if err = decoder.Decode(&body); err == nil && decoder.More() {
		err = errors.New("something follows the plan")
	}
	if err != nil {
		return nil, nil, c.Refuse(kit.Flaw{Location: "file", Message: c.T("This is not JSON: ", "JSON 格式有误：") + err.Error()})
	}
	return body, func(location string) string { return strings.TrimPrefix(location, "body.") + ": " }, nil
}

// body is the request: an activity that lasts as long as its sessions.
func (s *sheet) body(name string) map[string]any {
	var lasts span
	for _, in := range s.sessions {
		lasts.over(in.OpensAt, in.ClosesAt)
	}
	return map[string]any{"name": name, "starts_at": lasts.from, "ends_at": lasts.to, "sessions": s.sessions}
}

var ofSheet = regexp.MustCompile(`^body\.sessions\[(\d+)\](?:\.items\[(\d+)\])?(?:\.(\w+))?`)

// where names the cell that a member of the request came from.
func (s *sheet) where(c *kit.Call, location string) string {
	found := ofSheet.FindStringSubmatch(location)
	if found == nil {
		return ""
	}
	i, _ := strconv.Atoi(found[1])
	if i >= len(s.sessions) {
		return ""
	}
	lines, member := s.sessions[i].lines, found[3]
	line := lines[0]
	if found[2] == "" && member == "name" {
		member = "session"
	}
	if j, err := strconv.Atoi(found[2]); err == nil && j < len(lines) {
		line = lines[j]
	}
	if member == "detail" {
		member = "description"
	}
	return whereOf(c, line, member)
}
