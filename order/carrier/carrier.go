// Package carrier knows the carriers that shops in China send parcels with: their names in
// both languages and what sheets call them, what their numbers look like, and where a
// shopper follows a parcel.
//
// A shipment keeps its carrier as a text. Find recognises it when it is read, so that a
// carrier that is added here gets its links for the parcels that were sent before. A carrier
// that is not here is kept as it was typed and has no link.
package carrier

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/text/width"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
)

// Carrier is one that is known.
type Carrier struct {
	Code    string
	Name    fault.Text
	aliases []string
	// number is what its tracking numbers look like, nil where that is not well known: a
	// pattern that is too narrow would keep a parcel from being noted.
	number *regexp.Regexp
	// track is the tracking page, which ends before the number.
	track string
}

// kuaidi100 shows the parcels of carriers whose own pages take no number in a link.
const kuaidi100 = "https://www.kuaidi100.com/chaxun?com="

// Own is the code of a shop that delivers by itself, without a number.
const Own = "OWN"

// NoNumber is the tracking number of a parcel without one.
const NoNumber = "-"

// known are the carriers in the order in which a form offers them.
var known = []Carrier{
	{"SF", fault.Text{"SF Express", "顺丰速运"}, []string{"顺丰", "顺丰快递", "顺丰标快", "顺丰特快", "shunfeng"}, regexp.MustCompile(`^(SF\d{10,15}|\d{12}|\d{15})$`), "https://www.sf-express.com/chn/sc/waybill/waybill-detail/"},
	{"ZTO", fault.Text{"ZTO Express", "中通快递"}, []string{"中通", "中通速递", "zhongtong"}, nil, kuaidi100 + "zhongtong&nu="},
	{"YTO", fault.Text{"YTO Express", "圆通速递"}, []string{"圆通", "圆通快递", "yuantong"}, nil, kuaidi100 + "yuantong&nu="},
	{"STO", fault.Text{"STO Express", "申通快递"}, []string{"申通", "申通速递", "shentong"}, nil, kuaidi100 + "shentong&nu="},
	{"YUNDA", fault.Text{"Yunda Express", "韵达快递"}, []string{"韵达", "韵达速递", "YD"}, nil, kuaidi100 + "yunda&nu="},
	{"JD", fault.Text{"JD Logistics", "京东物流"}, []string{"京东", "京东快递", "JDL", "jingdong"}, nil, kuaidi100 + "jd&nu="},
	{"JT", fault.Text{"J&T Express", "极兔速递"}, []string{"极兔", "极兔快递", "J&T", "JTSD", "jtexpress"}, regexp.MustCompile(`^(JT|UT)?\d{12,15}$`), kuaidi100 + "jtexpress&nu="},
	{"EMS", fault.Text{"EMS", "EMS 邮政特快"}, []string{"邮政特快", "邮政EMS", "特快专递", "中国邮政EMS"}, regexp.MustCompile(`^([A-Z]{2}\d{9}[A-Z]{2}|\d{13})$`), kuaidi100 + "ems&nu="},
	{"POST", fault.Text{"China Post", "中国邮政"}, []string{"邮政", "邮政快递", "邮政快递包裹", "邮政包裹", "YZPY"}, regexp.MustCompile(`^([A-Z]{2}\d{9}[A-Z]{2}|\d{13})$`), kuaidi100 + "youzhengguonei&nu="},
	{"DBL", fault.Text{"Deppon Express", "德邦快递"}, []string{"德邦", "德邦物流", "debang"}, nil, kuaidi100 + "debangkuaidi&nu="},
	{"DHL", fault.Text{"DHL", "DHL"}, []string{"DHL Express"}, nil, "https://www.dhl.com/global-en/home/tracking.html?tracking-id="},
	{"UPS", fault.Text{"UPS", "UPS"}, nil, nil, "https://www.ups.com/track?tracknum="},
	{"FEDEX", fault.Text{"FedEx", "FedEx 联邦快递"}, []string{"联邦", "联邦快递", "Federal Express"}, regexp.MustCompile(`^(\d{12}|\d{15}|\d{20}|\d{22})$`), "https://www.fedex.com/fedextrack/?trknbr="},
	{Own, fault.Text{"Own delivery", "商家自送"}, []string{"自送", "商家配送", "自配送", "同城配送"}, regexp.MustCompile(`^(-|[0-9A-Z-]{1,40})$`), ""},
}

// All are the known carriers, in the order in which a form offers them. The caller does not
// change them.
func All() []Carrier { return known }

// byName finds a carrier by its code, a name or an alias, folded.
var byName = func() map[string]*Carrier {
	names := map[string]*Carrier{}
	for i := range known {
		c := &known[i]
		for _, name := range append([]string{c.Code, c.Name[0], c.Name[1]}, c.aliases...) {
			names[fold(name)] = c
		}
	}
	return names
}()

// fold leaves out what names of the same carrier differ in.
func fold(name string) string {
	return strings.NewReplacer(" ", "", "\u3000", "", "有限公司", "").Replace(strings.ToLower(width.Fold.String(plaintext.Clean(name))))
}

// Find returns the carrier of a code, a name or what a sheet calls it; nil if it is not
// known.
func Find(name string) *Carrier { return byName[fold(name)] }

// Of guesses the carrier of a number by letters that only one uses; nil if it cannot.
func Of(number string) *Carrier {
	for prefix, code := range map[string]string{"SF": "SF", "YT": "YTO", "JT": "JT", "JD": "JD", "1Z": "UPS", "DPK": "DBL"} {
		if strings.HasPrefix(number, prefix) {
			return Find(code)
		}
	}
	return nil
}

// other begins a carrier that is not known and meant to be kept as it is; a shipment keeps 60 characters.
var other = regexp.MustCompile(`^(?i:其他|其它|other)\s*[:：]\s*(.{1,60})$`)

// Named is the carrier of a row of a sheet, and how a shipment keeps it: by its name, by what
// only its numbers begin with where the row has no name, or "other:" and a name. Known is
// false for any other text.
func Named(typed, number string) (name string, by *Carrier, known bool) {
	typed = plaintext.Clean(typed)
	if by = Find(typed); typed == "" {
		by = Of(number)
	}
	if by != nil {
		return by.Name[1], by, true
	}
	if m := other.FindStringSubmatch(typed); m != nil {
		return m[1], nil, true
	}
	return typed, nil, false
}

// plausible is what every carrier's numbers look like.
var plausible = regexp.MustCompile(`^[0-9A-Z][0-9A-Z-]{5,39}$`)

// Fits reports whether a number may be one of the carrier, of nil for one that is not known.
func (c *Carrier) Fits(number string) bool {
	if c != nil && c.number != nil {
		return c.number.MatchString(number)
	}
	by := Of(number)
	return plausible.MatchString(number) && strings.ContainsAny(number, "0123456789") && (by == nil || c == nil || by == c)
}

// Link is where a shopper follows a parcel, as it was noted; "" where there is no page.
func Link(name, number string) string {
	if c := Find(name); c != nil && c.track != "" && number != NoNumber {
		return c.track + url.PathEscape(number)
	}
	return ""
}

// Shipment is what left the shop.
type Shipment struct {
	Carrier     string `json:"carrier" doc:"As it was noted" example:"SF"`
	CarrierCode string `json:"carrier_code,omitempty" doc:"Of a known carrier" example:"SF"`
	CarrierName string `json:"carrier_name" doc:"In the reader's language, if it is known" example:"SF Express"`
	TrackingNo  string `json:"tracking_no" doc:"- of a parcel without one" example:"SF1234567890"`
	TrackingURL string `json:"tracking_url,omitempty" doc:"Where its shopper follows it; of a known carrier" example:"https://www.sf-express.com/chn/sc/waybill/waybill-detail/SF1234567890"`
	At          string `json:"at" format:"date-time"`
}

// ShipmentOf shows a shipment to a reader of a language.
func ShipmentOf(name, number string, at time.Time, language int) *Shipment {
	s := &Shipment{Carrier: name, CarrierName: NameOf(name, language), TrackingNo: number, TrackingURL: Link(name, number), At: orderevent.Time(at)}
	if c := Find(name); c != nil {
		s.CarrierCode = c.Code
	}
	return s
}

// NameOf is a carrier as a shipment keeps it, in a language (0 is English, 1 Chinese): as it
// was typed, if it is not known.
func NameOf(name string, language int) string {
	if c := Find(name); c != nil {
		return c.Name[language]
	}
	return name
}

// Same reports whether two texts name the same carrier.
func Same(a, b string) bool {
	if c := Find(a); c != nil {
		return c == Find(b)
	}
	return fold(a) == fold(b)
}
