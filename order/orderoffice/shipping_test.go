package orderoffice

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/officetest"
	"stampede/platform/workshop/require"
)

// desk is the office over an API that has waiting orders, and keeps the lists that it is to ship.
type desk struct {
	waiting int
	away    bool // it ships nothing
	role    auth.Role
	shipped []string
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	row := func(i int) string { // paid after the one before it; every third is of two units
		return fmt.Sprintf(`{"order_no":"%032d","status":"paid","quantity":%d,"sku":%q,"title":"Lamp","paid_at":"2026-11-11T12:%02d:%02d.000Z"}`, i, 1+(i%3)/2, []string{"lamp-red", "lamp-blue"}[i%2], i/60, i%60)
	}
	var rows []string
	next := ""
	switch query := r.URL.Query(); {
	case query.Get("status") == "paid":
		rows = []string{row(1)}
	case r.Method == http.MethodPost && d.away:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"code":"unavailable","title":"Away"}`)
		return
	case r.URL.Path == "/api/v1/admin/carriers":
		_, _ = io.WriteString(w, `{"data":[{"code":"SF","name":"SF"},{"code":"ZTO","name":"ZTO"}]}`)
		return
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		d.shipped = append(d.shipped, string(body))
		_, _ = io.WriteString(w, `{"data":[{"line":1,"order_no":"7","carrier":"ZTO","tracking_no":"773100000001","result":"failed","says":"=later"}],"shipped":0,"already_shipped":0,"refused":1}`)
		return
	case query.Get("order_nos") != "": // in any order
		for no := range strings.SplitSeq(query.Get("order_nos"), ",") {
			var i int
			_, _ = fmt.Sscan(strings.TrimLeft(no, "0"), &i)
			rows = append([]string{row(i)}, rows...)
		}
	case query.Get("to_ship") == "true":
		var from int
		_, _ = fmt.Sscan(query.Get("cursor"), &from)
		for i := from; i < min(from+100, d.waiting); i++ {
			rows = append(rows, row(i+1))
		}
		if from+100 < d.waiting {
			next = fmt.Sprint(from + 100)
		}
	}
	_, _ = fmt.Fprintf(w, `{"data":[%s],"next_cursor":%q}`, strings.Join(rows, ","), next)
}

// opened is the page that an operator gets, for a form if there is one.
func (d *desk) opened(t *testing.T) func(path string, form url.Values) string {
	t.Helper()
	open := officetest.Open(t, Section(), cmp.Or(d.role, auth.Operator), d.ServeHTTP)
	return func(path string, form url.Values) string { return open(path, form, "en") }
}

// TestExportsHaveTheListsFilters: the links of a list to its files carry all that it was narrowed by.
func TestExportsHaveTheListsFilters(t *testing.T) {
	t.Parallel()
	open := (&desk{waiting: 3, role: auth.Viewer}).opened(t)
	for page, filters := range map[string]map[string]string{
		"/admin/orders?status=paid&item_id=7&cursor=c1": {"status": "paid", "item_id": "7", "cursor": ""},
		"/admin/shipping?recipient=张三&item_id=7":        {"to_ship": "true", "recipient": "张三", "item_id": "7", "parcels": ""},
	} {
		links := regexp.MustCompile(`href="([^"]*/export\?[^"]*)"`).FindAllStringSubmatch(open(page, nil), -1)
		require.Equal(t, page+": has links", len(links) >= 2, true)
		for _, link := range links {
			address, err := url.Parse(html.UnescapeString(link[1]))
			require.NoError(t, err)
			for name, value := range filters {
				require.Equal(t, page+": "+name+" of "+link[1], address.Query().Get(name), value)
			}
		}
	}
}

// TestPickingListHasWhatIsPacked: the list of the chosen orders, and of all, with the units of each
// variant and the first paid first.
func TestPickingListHasWhatIsPacked(t *testing.T) {
	t.Parallel()
	d := &desk{waiting: 250}
	open := d.opened(t)
	units := regexp.MustCompile(`(lamp-\w+)</td><td>Lamp</td><td class="n"><b>(\d+)</b>`)
	orders := regexp.MustCompile(`☐</td><td class="mono">[^<]*?(\d+)<`)
	read := func(page string) (sums, nos string) {
		return fmt.Sprint(units.FindAllStringSubmatch(page, -1)), fmt.Sprint(orders.FindAllString(page, -1))
	}
	chosen := url.Values{}
	for _, i := range []int{2, 1, 5} {
		chosen.Add("order_no", fmt.Sprintf("%032d", i))
	}
	page := open("/admin/shipping/picking?"+chosen.Encode(), nil)
	sums, nos := read(page)
	require.Equal(t, "units of the chosen", strings.Count(sums, "lamp-blue</td><td>Lamp</td><td class=\"n\"><b>3"), 1)
	require.Equal(t, "the chosen", strings.Count(nos, "☐"), 3)
	if first, last := strings.Index(nos, "00001<"), strings.Index(nos, "00005<"); first < 0 || last < first {
		t.Errorf("the first paid is not the first: %s", nos)
	}
	_, nos = read(open("/admin/shipping/picking", nil))
	require.Equal(t, "all", strings.Count(nos, "☐"), 250)
	d.waiting = 501
	page = open("/admin/shipping/picking", nil)
	_, nos = read(page)
	require.Equal(t, "what is printed of 501", strings.Count(nos, "☐"), printedMost)
	require.Contains(t, "the page", page, "These are the first 500")
	require.Equal(t, "slips of 501, each a section", strings.Count(open("/admin/shipping/slips", nil), `class="card slip"`), printedMost)
}

// TestListShipsWhatWasTyped: orders with a number and chosen ones are shipped, with a carrier of their
// own or the list's; the results can be corrected as a sheet.
func TestListShipsWhatWasTyped(t *testing.T) {
	t.Parallel()
	d := &desk{waiting: 3}
	open := d.opened(t)
	page := open("/admin/shipping/ship", url.Values{
		"carrier": {"ZTO"}, "number.1": {" 773100000001 "}, "carrier.1": {""}, "number.2": {""}, "number.3": {"SF1234567890"}, "carrier.3": {"SF"}, "order_no": {"4"}, "carrier.4": {"OWN"}, "number.4": {""},
	})
	require.Equal(t, "shipped", d.shipped, []string{`{"orders":[{"carrier":"ZTO","order_no":"1","tracking_no":"773100000001"},{"carrier":"SF","order_no":"3","tracking_no":"SF1234567890"},{"carrier":"OWN","order_no":"4","tracking_no":""}]}`})
	require.Contains(t, "the results", page, "=later", "download=")
	file, err := base64.StdEncoding.DecodeString(html.UnescapeString(regexp.MustCompile(`href="data:text/csv[^,"]*,([^"]*)"`).FindStringSubmatch(page)[1]))
	require.NoError(t, err)
	require.Contains(t, "the sheet of the results", string(file), "773100000001\t", "'=later")
	require.Contains(t, "the page of a form without numbers", open("/admin/shipping/ship", url.Values{"number.1": {""}, "_back": {"/admin/shipping"}}), "Type the tracking number")
	require.Equal(t, "lists shipped", len(d.shipped), 1)

	d.away = true
	first, second := fmt.Sprintf("%032d", 1), fmt.Sprintf("%032d", 2)
	page = open("/admin/shipping/ship", url.Values{
		"carrier": {"SF"}, "number." + first: {`773"1`}, "carrier." + first: {"ZTO"}, "number." + second: {""}, "order_no": {second},
		"_key": {"k-1"}, "_back": {"/admin/shipping"},
	})
	require.Contains(t, "a list that was refused", page, "Away", `name="_key" value="k-1"`,
		`name="number.`+first+`" value="773&#34;1"`, `value="`+second+`" checked`, `name="number.`+second+`" value=""`)
	require.Equal(t, "boxes ticked", strings.Count(page, " checked"), 1)
	chosen := regexp.MustCompile(`<select name="([^"]+)".*?</select>`).FindAllString(page, -1)
	require.Contains(t, "the list's carrier", chosen[0], `value="SF" selected`)
	require.Contains(t, "an order's carrier", chosen[1], `name="carrier.`+first, `value="ZTO" selected`)
	require.Equal(t, "carriers chosen", strings.Count(page, " selected"), 2)
}
