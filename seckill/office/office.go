// Package office describes the back office's pages about sales: activities with their
// sessions and items, what is going on with each item, the check before an opening, and
// the forms that stop, slow, extend and end a sale. See platform/edge/office for how
// such a description becomes pages.
package office

import (
	"embed"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
	"stampede/seckill/report"
)

//go:embed *.html
var files embed.FS

const (
	api        = "/api/v1/admin"
	activities = "/admin/activities"
	activity   = activities + "/{id}"
	item       = "/admin/items/{id}"
)

// Section is the module's part of the office.
func Section() kit.Section {
	known := maps.Clone(words)
	maps.Copy(known, riskWords)
	return kit.Section{
		Files: files, Words: known,
		Menu: []kit.Entry{
			{Path: activities, Name: kit.Text{"Sales", "活动"}, Role: auth.Viewer},
			{Path: risk, Name: kit.Text{"Risk rules", "风控规则"}, Role: auth.Viewer, Later: true},
		},
		Pages: append([]kit.Page{
			{Path: activities, Title: kit.Text{"Sales", "活动"}, Role: auth.Viewer, Template: "activities.html", Filters: activityFilters, Reads: []kit.Read{{Name: "activities", Path: api + "/activities", Query: true}}},
			{Path: activities + "/new", Title: kit.Text{"Create sale", "新建活动"}, Role: auth.Operator, Template: "new.html"},
			{Path: activity, Title: kit.Text{"Sale", "活动详情"}, Role: auth.Viewer, Template: "activity.html", Load: sale},
			{Path: activity + "/live", Title: kit.Text{"War room", "作战室"}, Role: auth.Viewer, Template: "live.html", Reads: []kit.Read{{Name: "room", Path: api + "/activities/{id}/war-room"}}},
			{Path: activity + "/live/events", Role: auth.Viewer, Download: api + "/activities/{id}/war-room/live"},
			{Path: activity + "/preflight", Title: kit.Text{"Pre-sale checks", "开售检查"}, Role: auth.Viewer, Template: "preflight.html", Reads: []kit.Read{
				{Name: "preflight", Path: api + "/activities/{id}/preflight"}, {Name: "activity", Path: api + "/activities/{id}"},
			}},
			{Path: item + "/preview", Role: auth.Viewer, Download: api + "/items/{id}/preview"},
			{Path: templatePath, Role: auth.Operator, Attached: template},
			{Path: item, Title: kit.Text{"Item", "商品详情"}, Role: auth.Viewer, Template: "item.html", Load: oneItem},
			{Path: "/admin/sessions/{id}/report", Role: auth.Viewer, Download: api + "/sessions/{id}/report"},
		}, riskPages...),
		Acts: slices.Concat(editActs, acts, planActs, importActs, riskActs),
	}
}

var activityFilters = []kit.Field{{Name: "status", Label: kit.Text{"Status", "状态"}, Kind: kit.Choice, Options: []string{"draft", "scheduled", "running", "ended", "terminated"}}}

// sale reads an activity, with the books of each item.
func sale(c *kit.Call) (map[string]any, error) {
	found, err := c.Get(api+"/activities/"+url.PathEscape(c.Value("id")), nil)
	if err != nil {
		return nil, err
	}
	sessions, _ := found["sessions"].([]any)
	for _, s := range sessions {
		session, _ := s.(map[string]any)
		items, _ := session["items"].([]any)
		for _, i := range items {
			if it, _ := i.(map[string]any); it != nil {
				id, _ := it["id"].(string)
				if it["funnel"], err = figures(c, id); err != nil {
					return nil, err
				}
			}
		}
	}
	rules, err := c.Get(api+"/activities/"+url.PathEscape(c.Value("id"))+"/rules", nil)
	return map[string]any{"activity": found, "rules": rules}, err
}

// oneItem reads an item with all that is known of its sale.
func oneItem(c *kit.Call) (map[string]any, error) {
	id := url.PathEscape(c.Value("id"))
	found, err := c.Get(api+"/items/"+id, nil)
	if err != nil {
		return nil, err
	}
	of, _ := found["activity_id"].(string)
	data := map[string]any{"item": found}
	if data["detail"], err = c.Get(api+"/items/"+id+"/detail", nil); err != nil {
		return nil, err
	}
	if data["activity"], err = c.Get(api+"/activities/"+of, nil); err != nil {
		return nil, err
	}
	rate, err := c.Get(api+"/items/"+id+"/admission", nil)
	if away(err) != nil {
		return nil, err
	}
	data["rate"] = rate
	funnel, err := figures(c, id)
	meanings := map[string]string{}
	answers, _ := funnel["answers"].(map[string]any)
	for code := range answers {
		meanings[code] = report.Meaning(code, c.Lang)
	}
	data["funnel"], data["meanings"] = funnel, meanings
	return data, err
}

// figures reads an item's funnel. Its books are partly in Redis: with that away the
// page shows the rest, because its forms are what an operator needs then.
func figures(c *kit.Call, id string) (map[string]any, error) {
	found, err := c.Get(api+"/items/"+id+"/funnel", nil)
	return found, away(err)
}

// away drops the error of a store that cannot be reached.
func away(err error) error {
	if p, refused := errors.AsType[*kit.Problem](err); refused && p.Status == http.StatusServiceUnavailable {
		return nil
	}
	return err
}
