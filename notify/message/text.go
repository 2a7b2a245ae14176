package message

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"stampede/platform/base/currency"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
)

// facts are what a message's text is filled with, as stored.
type facts struct {
	Item     string     `json:"item,omitempty"`
	Quantity int32      `json:"quantity,omitempty"`
	Amount   int64      `json:"amount,omitempty"`
	Currency string     `json:"currency,omitempty"`
	At       time.Time  `json:"at,omitzero"` // the opening, or the deadline
	Carrier  fault.Text `json:"carrier,omitzero"`
	Tracking string     `json:"tracking,omitempty"`
}

var tags = [...]language.Tag{httpx.English: language.English, httpx.Chinese: language.Chinese}

// orderDigits is how many of an order's number a person compares; the back office shows as many.
const orderDigits = 6

// words are what the placeholders of a text become.
func (f *facts) words(no ids.ID, lang httpx.Language, now time.Time, zone *time.Location) map[string]string {
	number := no.String()
	w := map[string]string{
		fillItem: f.Item, fillQuantity: strconv.Itoa(int(f.Quantity)), fillAmount: currency.Write(f.Amount, f.Currency, tags[lang]),
		fillOrder: number[len(number)-orderDigits:], fillCarrier: f.Carrier[lang], fillTracking: f.Tracking,
	}
	if f.Tracking == "" && f.Carrier != (fault.Text{}) { // the shop delivers by itself
		w[fillTracking] = fault.Text{httpx.English: "none", httpx.Chinese: "无"}[lang]
	}
	if !f.At.IsZero() {
		w[fillTime] = clockTime(f.At.In(zone), now.In(zone), lang)
		w[fillMinutes] = strconv.Itoa(max(1, int(f.At.Sub(now)/time.Minute)))
	}
	return w
}

// clockTime says the time of day, and the day unless it is today. It leaves the seconds out: a deadline is said a little early.
func clockTime(at, now time.Time, lang httpx.Language) string {
	layout := "15:04"
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		layout = [...]string{httpx.English: "2 Jan " + layout, httpx.Chinese: "1月2日" + layout}[lang]
	}
	return at.Format(layout)
}

// placeholder is a name in braces.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// fill replaces the placeholders of a text once: a title that looks like one stays as it is.
func fill(text string, words map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string { return words[p[1:len(p)-1]] })
}

// paramsOf are the placeholders of a text with their values, in its order.
func paramsOf(text string, words map[string]string) (params []sms.Param) {
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		params = append(params, sms.Param{Name: found[1], Value: words[found[1]]})
	}
	return params
}

var unruly = fault.T("Remove invisible control characters; type the text instead of pasting it.", "请删除不可见的控制字符，建议手动输入文字。")

// checkText refuses a text with a placeholder that the kind does not have, a brace that is none, or a control character.
func checkText(flaws *fault.Flaws, location string, k Kind, text string) {
	known := k.fills()
	for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
		flaws.Add(slices.Contains(known, found[1]), location, found[0], fault.T(
			"{name} is no placeholder of this message; it has {known}.", "该消息没有占位符{name}，可用的有{known}。",
			"name", found[0], "known", "{"+strings.Join(known, "}, {")+"}"))
	}
	flaws.Add(!strings.ContainsFunc(text, func(r rune) bool { return plaintext.Unruly(r) && !strings.ContainsRune("\r\n\t", r) }), location, nil, unruly)
	flaws.Add(!strings.ContainsAny(placeholder.ReplaceAllString(text, ""), "{}"), location, nil, fault.T(
		"A brace stands for a placeholder only, such as {name}.", "花括号只能用于占位符，如{name}。", "name", "{item}"))
}

// sampleFacts fill a preview.
func sampleFacts(now time.Time) facts {
	return facts{
		Item: "Phone 12 Pro", Quantity: 1, Amount: 9900, Currency: "CNY", At: now.Add(15 * time.Minute).Truncate(time.Minute),
		Carrier: fault.T("SF Express", "顺丰速运"), Tracking: "SF1234567890",
	}
}

func decodeFacts(raw []byte) (f facts, err error) {
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, fmt.Errorf("message: read what it says: %w", err)
	}
	return f, nil
}
