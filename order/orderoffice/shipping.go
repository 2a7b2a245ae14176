package orderoffice

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stampede/platform/base/spreadsheet"
	"stampede/platform/edge/auth"
	kit "stampede/platform/edge/office"
)

const (
	shipping  = "/admin/shipping"
	shipments = "/api/v1/admin/shipments"
)

var shippingEntry = kit.Entry{Path: shipping, Name: kit.Text{"Shipping", "发货"}, Role: auth.Viewer}

var shippingPages = []kit.Page{
	{Path: shipping, Title: kit.Text{"To be shipped", "待发货"}, Role: auth.Viewer, Template: "shipping.html", Filters: shippingFilters, Load: waiting},
	{Path: shipping + "/picking", Title: kit.Text{"Picking list", "拣货单"}, Role: auth.Viewer, Template: "picking.html", Load: printed},
	{Path: shipping + "/slips", Title: kit.Text{"Packing slips", "发货单"}, Role: auth.Operator, Template: "slips.html", Load: printed},
}

var shippingFilters = []kit.Field{
	{Name: "recipient", Label: kit.Text{"Recipient's whole name", "收件人姓名"}},
	{Name: "phone_tail", Label: kit.Text{"Last four digits of the phone", "手机号后四位"}},
	{Name: "item_id", Label: kit.Text{"Item", "商品编号"}, Kind: kit.Whole},
}

var shippingForms = []kit.Act{
	{
		Path: shipping + "/ship", API: "POST " + shipments, Role: auth.Operator, Make: typed, Answer: "shipped.html", Saved: saved,
		Title: kit.Text{"Ship", "批量发货"},
	},
	{
		Path: shipping + "/import", API: "POST " + shipments + "/import", Role: auth.Operator, On: shipping, Sends: "file", Answer: "shipped.html", Saved: saved,
		Title: kit.Text{"Import tracking numbers", "导入运单号"}, Button: kit.Text{"Upload", "上传"},
		Warning: kit.Text{
			"CSV or XLSX with the columns order_no, carrier and tracking_no, as a carrier's client or the export writes it; up to 2,000 orders. Uploading a sheet again ships nothing twice.",
			"支持 CSV、XLSX，含“订单号”“快递公司”“运单号”列，可直接上传快递软件导出的文件，最多 2000 行。重复上传不会重复发货。",
		},
		Fields: []kit.Field{
			{Name: "file", Label: kit.Text{"File", "文件"}, Kind: kit.File, Required: true},
			{Name: "carrier", Label: kit.Text{"Carrier of rows that name none", "未填写快递公司时默认"}, Max: 60},
			{Name: "dry_run", Label: kit.Text{"Only check, ship nothing", "仅检查，不发货"}, Kind: kit.Tick},
		},
	},
}

// waiting reads a page of what is to be shipped.
func waiting(c *kit.Call) (map[string]any, error) {
	query := c.Filled(shippingFilters)
	for name, value := range map[string]string{"to_ship": "true", "parcels": "true", "limit": "50"} {
		query.Set(name, value)
	}
	found, err := c.Get(api, query)
	if err != nil {
		return nil, err
	}
	known, err := c.Get("/api/v1/admin/carriers", nil)
	query.Del("parcels")
	query.Del("limit")
	return map[string]any{"orders": found, "carriers": known, "export": export(query)}, err
}

// printedMost is how many orders are printed at once: as many sheets of paper as a printer holds.
const printedMost = 500

// printed reads the orders that were chosen, or else all that are to be shipped.
func printed(c *kit.Call) (map[string]any, error) {
	var orders []any
	chosen, more := c.Query()["order_no"], false
	read := func(query url.Values) (next string, err error) {
		query.Set("parcels", "true")
		query.Set("limit", "100")
		found, err := c.Get(api, query)
		if err == nil {
			orders = append(orders, rows(found)...)
			next, _ = found["next_cursor"].(string)
		}
		return next, err
	}
	for some := range slices.Chunk(chosen[:min(len(chosen), printedMost)], 100) {
		if _, err := read(url.Values{"order_nos": {strings.Join(some, ",")}}); err != nil {
			return nil, err
		}
	}
	for cursor := ""; len(chosen) == 0; {
		next, err := read(url.Values{"to_ship": {"true"}, "cursor": {cursor}})
		if err != nil {
			return nil, err
		}
		if more = len(orders) >= printedMost && next != ""; more || next == "" {
			break
		}
		cursor = next
	}
	slices.SortStableFunc(orders, func(a, b any) int { return strings.Compare(text(a, "paid_at"), text(b, "paid_at")) })
	return map[string]any{"orders": orders, "sums": sums(orders), "more": more}, nil
}

func text(row any, name string) string {
	doc, _ := row.(map[string]any)
	return fmt.Sprint(doc[name])
}

// sums are the units of each variant, the most first.
func sums(orders []any) (made []map[string]any) {
	at, units := map[string]map[string]any{}, map[string]int64{}
	key := func(row any) string { return text(row, "sku") + "\n" + text(row, "spec") + "\n" + text(row, "title") }
	for _, o := range orders {
		doc, _ := o.(map[string]any)
		of := key(o)
		if at[of] == nil {
			at[of] = map[string]any{"sku": doc["sku"], "spec": doc["spec"], "title": doc["title"]}
			made = append(made, at[of])
		}
		n, _ := strconv.ParseInt(text(o, "quantity"), 10, 64) // the API's
		units[of] += n
		at[of]["quantity"] = units[of]
	}
	slices.SortStableFunc(made, func(a, b map[string]any) int { return cmp.Compare(units[key(b)], units[key(a)]) })
	return made
}

// typed are the rows of the list that have a number, or are chosen for the shop's own delivery.
func typed(c *kit.Call, form url.Values) (body map[string]any, where func(location string) string, err error) {
	nos := slices.Clone(form["order_no"])
	for name := range form {
		if no, is := strings.CutPrefix(name, "number."); is && form.Get(name) != "" && !slices.Contains(nos, no) {
			nos = append(nos, no)
		}
	}
	if len(nos) == 0 {
		return nil, nil, c.Refuse(kit.Flaw{Location: "order_no", Message: c.T("Type the tracking number of each order that was sent, or choose the orders that you deliver yourself.", "请填写已寄出订单的运单号，或勾选商家自送的订单。")})
	}
	slices.Sort(nos)
	sent := make([]map[string]any, len(nos))
	for i, no := range nos {
		by := form.Get("carrier." + no)
		if by == "" {
			by = form.Get("carrier")
		}
		sent[i] = map[string]any{"order_no": no, "carrier": by, "tracking_no": strings.TrimSpace(form.Get("number." + no))}
	}
	return map[string]any{"orders": sent}, func(string) string { return "" }, nil
}

// saved are the results as a sheet, which can be corrected and uploaded again.
func saved(c *kit.Call, answer map[string]any) (name, body string) {
	var out strings.Builder
	out.WriteString(spreadsheet.Mark)
	w := csv.NewWriter(&out)
	_ = w.Write([]string{c.T("line", "行"), c.T("order_no", "订单号"), c.T("carrier", "快递公司"), c.T("tracking_no", "运单号"), c.T("result", "结果")}) // a builder takes everything
	for _, row := range rows(answer) {
		cells := []string{text(row, "line"), text(row, "order_no"), text(row, "carrier"), text(row, "tracking_no"), text(row, "says")}
		for i := range cells {
			cells[i] = spreadsheet.Text(cells[i])
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return c.T("results.csv", "发货结果.csv"), out.String()
}
