package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/language"

	"stampede/platform/base/currency"
	"stampede/platform/base/fault"
	"stampede/platform/edge/encoded"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/wire"
)

var templates = template.Must(template.ParseFS(files, "templates/*.html"))

const (
	// keepPage lets a crowd's documents come from a CDN, and a change be seen by all
	// within seconds.
	keepPage = "public, max-age=10, stale-while-revalidate=60"
	// keepMissing is short: the link to an item may be shared before it is published.
	keepMissing = "public, max-age=1"
	// patience is how long a document waits for what it is about. Without that it is as
	// useful, but for what others show of a link.
	patience = 300 * time.Millisecond
)

// pages makes the documents. Safe for concurrent use.
type pages struct {
	Config
	folder string // of the files
	logo   string // where it is; empty without one
	kept   kept
}

// kinds are the documents by the member of the query that asks for them; the first one
// that is there counts. Private ones are of no use to a search engine.
var kinds = []struct {
	query, page string
	title       fault.Text
	private     bool
}{
	{"qr", "confirm", fault.Text{"Confirm login", "确认登录"}, true},
	{"order", "order", fault.Text{"Order details", "订单详情"}, true},
	{"item", "item", fault.Text{"On sale", "商品详情"}, false},
	{"orders", "orders", fault.Text{"My orders", "我的订单"}, true},
	{"account", "account", fault.Text{"My account", "我的账号"}, true},
	{"wechat", "wechat", fault.Text{"WeChat", "微信登录"}, true},
	{"preview", "preview", fault.Text{"Item preview", "商品预览"}, true},
	{"sessions", "sessions", fault.Text{"Flash sales", "抢购场次"}, false},
}

// document is what the template shows.
type document struct {
	*pages
	language           httpx.Language
	Page               string
	Title, Description string
	Address            string // of this document, for everyone; empty for an item that is not known
	Private, Live      bool
	Goods              *goods // of an item's document; nil if it is not known
}

// goods are what a document shows of an item, as the API names it.
type goods struct {
	ID string `json:"id"`
	wire.Goods
	OpensAt      time.Time `json:"opens_at"`
	LimitPerUser int       `json:"limit_per_user"`
}

// page answers with the document that the query asks for.
func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	d, query, status := p.document(r), r.URL.Query(), http.StatusOK
	kind := kinds[len(kinds)-1]
	for _, k := range kinds {
		if query.Has(k.query) {
			kind = k
			break
		}
	}
	d.Page, d.Title, d.Private = kind.page, kind.title[d.language], kind.private
	d.Description = d.T("Limited-time deals in limited numbers. First come, first served.", "限时限量，准点开抢，先到先得。")
	var shown []byte
	if d.Page == "item" {
		var err error
		if shown, err = p.item(r.Context(), query.Get("item")); err != nil {
			status, d.Private, d.Page = http.StatusNotFound, true, "missing"
		}
	}
	// All that documents differ in.
	key := fmt.Sprint(d.Page, " ", d.language, " ", status, " ", string(shown))
	p.write(w, r, status, key, d, shown)
}

func (p *pages) live(w http.ResponseWriter, r *http.Request) {
	d := p.document(r)
	d.Page, d.Title, d.Live, d.Private = "live", d.T("Demo", "演示"), true, true
	p.write(w, r, http.StatusOK, fmt.Sprint(d.Page, " ", d.language), d, nil)
}

func (p *pages) document(r *http.Request) *document {
	return &document{pages: p, language: httpx.LanguageOf(r.Header.Get("Accept-Language")), Address: p.BaseURL + "/"}
}

// write answers with the document of a key, which is made of d and what is shown of an
// item, unless it is kept.
func (p *pages) write(w http.ResponseWriter, r *http.Request, status int, key string, d *document, shown []byte) {
	f := p.kept.get(key)
	if f == nil {
		err := d.describe(shown)
		var body bytes.Buffer
		if err == nil {
			err = templates.ExecuteTemplate(&body, "shop.html", d)
		}
		if err != nil {
			httpx.WriteProblem(w, r, err)
			return
		}
		f = encoded.New("shop.html", body.String(), encoded.Quickly)
		p.kept.put(key, f)
	}
	keep := keepPage
	if status != http.StatusOK {
		keep = keepMissing
	}
	w.Header().Set("Vary", "Accept-Language")
	f.Serve(w, r, keep, status)
}

// kept are the documents made last, so that a crowd that loads an item's page in the
// seconds before the opening costs one rendering for each state of the item. Safe for
// concurrent use.
type kept struct {
	mu    sync.Mutex
	files map[string]*encoded.File
}

// mostKept is enough for the items of a day; a document is some ten kilobytes.
const mostKept = 256

func (k *kept) get(key string) *encoded.File {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.files[key]
}

func (k *kept) put(key string, f *encoded.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil || len(k.files) >= mostKept {
		k.files = map[string]*encoded.File{}
	}
	k.files[key] = f
}

var errNoGoods = errors.New("shop: there is no such item")

// item reads what is on sale under an id; nil if that cannot be read now.
func (p *pages) item(ctx context.Context, id string) ([]byte, error) {
	number, err := httpx.ParseID(id)
	if err != nil {
		return nil, errNoGoods
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	doc, err := p.Item(ctx, number)
	if err != nil {
		return nil, nil //nolint:nilerr // the page's script asks again, and says what is wrong
	}
	if doc == nil {
		return nil, errNoGoods
	}
	return doc, nil
}

// describe makes the document that of an item, if that is known.
func (d *document) describe(shown []byte) error {
	if shown == nil {
		if d.Page == "item" { // the shop's own address would tell search engines that this is no page of its own
			d.Address = ""
		}
		return nil
	}
	d.Goods = new(goods)
	if err := json.Unmarshal(shown, d.Goods); err != nil {
		return fmt.Errorf("shop: decode what is on sale: %w", err)
	}
	d.Title, d.Description = d.Goods.Title, d.about(d.Goods)
	d.Address += "?item=" + url.QueryEscape(d.Goods.ID)
	return nil
}

// What the template calls.

// T is a text in the document's language.
func (d *document) T(english, chinese string) string { return fault.Text{english, chinese}[d.language] }

// Lang is the document's language, which the script follows.
func (d *document) Lang() string { return d.T("en", "zh") }

// File is where a file is.
func (d *document) File(name string) string { return d.folder + name }

// Module is the script of the page that the first one would ask for.
func (d *document) Module() string {
	if d.Page == "item" || d.Page == "missing" {
		return ""
	}
	return d.File(d.Page + ".js")
}

// Logo is where the shop's logo is.
func (d *document) Logo() string { return d.logo }

// Accent is the colour of the browser's own bars.
func (d *document) Accent() string { return d.ShopAccent }

// Colours are those that differ from the style sheet's.
func (d *document) Colours() template.CSS { return template.CSS(d.colours()) } //nolint:gosec // made of hexadecimal digits

// Icon is the logo, else the shop's first letter on its colour.
func (d *document) Icon() template.URL {
	if d.logo != "" {
		return template.URL(d.logo) //nolint:gosec // the operator's setting, or a file of ours
	}
	letter := template.HTMLEscapeString(string([]rune(strings.ToUpper(d.ShopName))[:1]))
	svg := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="` + d.ShopAccent + `"/><text x="16" y="23" font-family="system-ui" font-size="20" font-weight="700" text-anchor="middle" fill="#fff">` + letter + `</text></svg>`
	return template.URL("data:image/svg+xml," + url.PathEscape(svg)) //nolint:gosec // escaped
}

// Picture is what others show beside a link to the document.
func (d *document) Picture() string {
	at := d.logo
	if d.Goods != nil && d.Goods.ImageURL != "" {
		at = d.Goods.ImageURL
	}
	if strings.HasPrefix(at, "/") {
		return d.BaseURL + at
	}
	return at
}

// Price writes an amount as the pages' script does.
func (d *document) Price(m wire.Money) string {
	return currency.Write(m.Amount, m.Currency, []language.Tag{language.English, language.Chinese}[d.language])
}

// OpensOn says in the shop's zone when an item opens.
func (d *document) OpensOn(at time.Time) string {
	at = at.In(d.Zone)
	return d.T("Starts "+at.Format("2 Jan, 15:04 MST"), at.Format("1月2日 15:04 开抢"))
}

// about describes an item in one sentence.
func (d *document) about(g *goods) string {
	sale, list, most := d.Price(g.SalePrice), "", strconv.Itoa(g.LimitPerUser)
	if g.ListPrice.Amount > g.SalePrice.Amount {
		list = d.T(", was ", "，原价 ") + d.Price(g.ListPrice)
	}
	return d.T(sale+list+". "+d.OpensOn(g.OpensAt)+", limit "+most+" per customer.", "秒杀价 "+sale+list+"，"+d.OpensOn(g.OpensAt)+"，每人限购 "+most+" 件。")
}
