package office

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/currency"
)

// FieldView is a field as a template shows it.
type FieldView struct {
	Field
	ID       string
	Text     string
	Flaw     string // what is wrong with it
	Currency string // of a Price

	filter bool // it narrows a list

	c *Call
}

// Unset is what a choice shows while none is made: all of a list, or nothing.
func (f FieldView) Unset() string {
	if f.filter {
		return f.c.T("All", "全部")
	}
	return ""
}

// InputType is the type of its input element.
func (f FieldView) InputType() string {
	switch f.Kind {
	case Whole:
		return "number"
	case Moment:
		return "datetime-local"
	case Day:
		return "date"
	case File:
		return "file"
	default:
		return "text"
	}
}

// Is reports whether it is of a kind, by name.
func (f FieldView) Is(kind string) bool {
	return map[string]Kind{"money": Price, "area": Area, "lines": Lines, "choice": Choice, "tick": Tick, "moment": Moment}[kind] == f.Kind && f.Kind != Line
}

// Decimal reports whether phones should show their keys for decimals.
func (f FieldView) Decimal() bool {
	return f.Kind == Price || f.Kind == Number || f.Kind == Minutes
}

// Zone is the name of the shop's zone, in which moments are typed.
func (f FieldView) Zone() string { return f.c.Zone() }

// Seconds reports whether the moment that the field begins with has seconds.
func (f FieldView) Seconds() bool { return strings.Count(f.Text, ":") > 1 }

// LabelText is its label in the language of the page.
func (f FieldView) LabelText() string { return f.c.In(f.Label) }

// HelpText is its help in the language of the page.
func (f FieldView) HelpText() string { return f.c.In(f.Help) }

// Word is an option in the language of the page.
func (f FieldView) Word(option string) string {
	if t, ok := f.Words[option]; ok {
		return f.c.In(t)
	}
	return f.c.Word(option)
}

// body builds a request's body from a form, nil if the act has no fields.
func (c *Call) body(a *Act, form url.Values) (body map[string]any, err error) {
	if len(a.Fields) > 0 {
		if body, err = c.ReadRow(a.Fields, form, ""); err != nil {
			return nil, err
		}
	}
	if a.Body != nil {
		body = a.Body(form, body)
	}
	return body, nil
}

// ReadRow reads the fields of a row of a form, whose names begin with the prefix.
func (c *Call) ReadRow(fields []Field, form url.Values, prefix string) (map[string]any, error) {
	body := map[string]any{}
	for _, f := range fields {
		member := f.Name
		f.Name = prefix + f.Name
		value, given, err := c.read1(&f, form)
		if err != nil {
			return nil, err
		}
		if !given && f.Blank != nil {
			value, given = f.Blank, true
		}
		if given {
			put(body, member, value)
		}
	}
	return body, nil
}

// put sets a member whose name's dots separate nested ones.
func put(body map[string]any, name string, value any) {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		body[name] = value
		return
	}
	within, _ := body[outer].(map[string]any)
	if within == nil {
		within = map[string]any{}
		body[outer] = within
	}
	put(within, inner, value)
}

// read1 reads one field; an empty one is not given.
func (c *Call) read1(f *Field, form url.Values) (value any, given bool, err error) {
	typed := strings.TrimSpace(strings.ReplaceAll(form.Get(f.Name), "\r\n", "\n"))
	if typed == "" {
		if f.Required {
			return nil, false, c.invalid(f.Name, c.T("This is needed.", "必填。"))
		}
		return nil, false, nil
	}
	switch f.Kind {
	case Whole, Number:
		number, err := strconv.ParseFloat(typed, 64)
		whole, notWhole := strconv.ParseInt(typed, 10, 64)
		if value = whole; notWhole != nil { // as JSON writes it: people type 007 and 5. too
			value = json.Number(strconv.FormatFloat(number, 'f', -1, 64))
		}
		if err != nil || math.IsInf(number, 0) || math.IsNaN(number) || f.Kind == Whole && notWhole != nil {
			return nil, false, c.invalid(f.Name, c.T("This is not a number.", "请输入数字。"))
		}
	case Price:
		code := form.Get("_currency")
		minor, ok := MinorUnits(typed, code)
		if !ok {
			return nil, false, c.invalid(f.Name, c.T("This is not an amount such as 19.90.", "请输入金额，例如 19.90。"))
		}
		if minor == 0 && f.Zero != (Text{}) {
			return nil, false, c.invalid(f.Name, c.In(f.Zero))
		}
		value = map[string]any{"amount": minor, "currency": code}
	case Minutes:
		minutes, err := strconv.ParseFloat(typed, 64)
		if err != nil || !(math.Abs(minutes) <= maxMinutes) { // nor NaN
			return nil, false, c.invalid(f.Name, c.T("This is not a number.", "请输入数字。"))
		}
		value = int64(math.Round(minutes * secondsOfMinute))
	case Tick:
		value = true
	case Moment:
		at, err := c.office.moment(typed)
		if err != nil {
			return nil, false, c.invalid(f.Name, c.T("This is not a date and time.", "请输入日期和时间。"))
		}
		value = at
	case Lines:
		value = strings.Fields(typed)
	default:
		value = typed
	}
	return value, true, nil
}

func isWhole(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// moment reads what a browser's field for dates or for dates with times sends, in the
// shop's zone, and renders it for the API.
func (o *Office) moment(typed string) (string, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, ok := MomentIn(o.deps.Zone, layout, typed); ok {
			return at.Format(time.RFC3339), nil
		}
	}
	if day, err := time.ParseInLocation(time.DateOnly, typed, o.deps.Zone); err == nil {
		return day.Format(time.RFC3339), nil
	}
	_, err := time.Parse(time.RFC3339, typed)
	return typed, err
}

// MomentIn reads a time in a zone; false for one that its clocks leave out when summer
// begins, for which the operator must choose another.
func MomentIn(zone *time.Location, layout, typed string) (at time.Time, ok bool) {
	at, err := time.ParseInLocation(layout, typed, zone)
	onClock, _ := time.Parse(layout, typed) // every hour is there in UTC
	return at, err == nil && at.Hour() == onClock.Hour() && at.Minute() == onClock.Minute()
}

const (
	secondsOfMinute = 60
	// maxMinutes is 200 years; the API has bounds of its own.
	maxMinutes = 1e8
)

// shown renders a member of a document of the API as its field shows it.
func (c *Call) shown(f *Field, doc map[string]any) string {
	value := Inside(doc, f.Name)
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		lines := make([]string, len(v))
		for i := range v {
			lines[i] = text(v[i])
		}
		return strings.Join(lines, "\n")
	}
	switch f.Kind {
	case Price:
		price, _ := value.(map[string]any)
		minor, _ := strconv.ParseInt(text(price["amount"]), 10, 64)
		return mainUnits(minor, text(price["currency"]))
	case Minutes:
		seconds, _ := strconv.ParseFloat(text(value), 64)
		return strconv.FormatFloat(seconds/secondsOfMinute, 'f', -1, 64)
	default:
		return text(value)
	}
}

// Inside reads a member of a document, nil if it has none; dots in its name separate nested ones.
func Inside(doc map[string]any, name string) any {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return doc[outer]
	}
	within, _ := doc[outer].(map[string]any)
	return Inside(within, inner)
}

// currencyOf is the currency of a document's first price, "" if it has none.
func currencyOf(doc map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		if price, ok := doc[name].(map[string]any); ok && text(price["currency"]) != "" {
			return text(price["currency"])
		}
	}
	return ""
}

// MinorUnits reads an amount such as 19.90, exactly.
func MinorUnits(typed, code string) (minor int64, ok bool) {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(typed, "¥"), ".")
	scale := currency.Decimals(code)
	if len(fraction) > scale || whole == "" || strings.HasPrefix(whole, "-") {
		return 0, false
	}
	minor, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", scale-len(fraction)), 10, 64)
	return minor, err == nil
}

// mainUnits renders an amount in minor units for a person.
func mainUnits(minor int64, code string) string {
	return currency.Money{Amount: minor, Currency: code}.Units()
}
