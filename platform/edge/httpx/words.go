package httpx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/go-json-experiment/json/jsontext"

	"stampede/platform/base/fault"
)

// huma's messages for an unreadable request, and ours.
const humaCannotRead = "cannot read request body"

var wholes = map[string]fault.Text{
	humaCannotRead: fault.T("The body ended too early or its HTTP framing is invalid; send the request again.",
		"请求体不完整或 HTTP 分帧无效，请重新发送。"),
	"request body is required":  fault.T("This route requires a JSON body, and none was sent.", "该接口需要 JSON 请求体。"),
	"request body read timeout": fault.T("The body did not arrive in time; send the request again.", "请求体未及时到达，请重新发送。"),
}

// both is a message in English and in Chinese: huma writes the figures into it before the
// language of the request is known, and inOurWords takes it apart.
func both(english, chinese string) string { return english + betweenLanguages + chinese }

// betweenLanguages occurs in no body, see distinct.
const betweenLanguages = "\x00"

// huma's validation messages, which are variables for this purpose: ours follow a
// field's name and complete a sentence, in Chinese without the name. Those that include
// an error omit it (%.0s), because it is in Go's terms.
func init() {
	validation.MsgUnexpectedProperty = both("is not a known field", "不支持该字段")
	validation.MsgExpectedRFC3339DateTime = mustBeTime
	validation.MsgExpectedRFC3339Date = both("must be a date like 2026-11-11", "须为日期，例如 2026-11-11")
	validation.MsgExpectedRFC3986URI = both("must be a web address, as in https://shop.example/phone.png%.0s", aWebAddress)
	validation.MsgExpectedRFC3986AbsoluteURI = both("must be a web address, as in https://shop.example/phone.png", aWebAddress)
	validation.MsgExpectedBoolean = both("must be true or false", "须为是或否")
	validation.MsgExpectedNumber = both("must be a number", "须为数字")
	validation.MsgExpectedInteger = mustBeWhole
	validation.MsgExpectedString = both("must be a text", "须为文字")
	validation.MsgExpectedArray = both("must be a list", "须为列表")
	validation.MsgExpectedObject = both("must be an object", "须为对象")
	validation.MsgExpectedArrayItemsUnique = both("must not have the same entry twice", "不能重复")
	validation.MsgExpectedOneOf = both("must be one of %s", "须为以下之一：%[1]s")
	validation.MsgExpectedConst = both("must be %v", "须为 %[1]v")
	validation.MsgExpectedMinimumNumber = both("must be at least %v", "不能小于 %[1]v")
	validation.MsgExpectedExclusiveMinimumNumber = both("must be more than %v", "须大于 %[1]v")
	validation.MsgExpectedMaximumNumber = both("must be at most %v", "不能大于 %[1]v")
	validation.MsgExpectedExclusiveMaximumNumber = both("must be less than %v", "须小于 %[1]v")
	validation.MsgExpectedNumberBeMultipleOf = both("must be a multiple of %v", "须能被整除，除数为 %[1]v")
	validation.MsgExpectedMinLength = both("must have at least %d characters", "至少 %[1]d 个字符")
	validation.MsgExpectedMaxLength = both("must have at most %d characters", "最多 %[1]d 个字符")
	validation.MsgExpectedBePattern = both("must be %s", "格式不正确")
	validation.MsgExpectedMatchPattern = both("must be of the form %s", "格式不正确")
	validation.MsgExpectedMinItems = both("must have at least %d entries", "至少 %[1]d 项")
	validation.MsgExpectedMaxItems = both("must have at most %d entries", "最多 %[1]d 项")
	validation.MsgExpectedRequiredProperty = missingMember + "%s"
}

// Messages of several checks.
const (
	aWebAddress = "须为网址，例如 https://shop.example/phone.png"
	isMissing   = "is missing" + betweenLanguages + "必填"
	mustBeTime  = "must be " + aTime + betweenLanguages + "须为带时区的时间，例如 2026-11-11T20:00:00+08:00"
	mustBeWhole = "must be a whole number" + betweenLanguages + "须为整数"
)

// missingMember begins the message that huma reports for the object that lacks a
// member; it is rewritten to name the member.
const missingMember = "is missing: "

// aTime describes the format of a time in a body.
const aTime = "a time with its zone, as in 2026-11-11T20:00:00+08:00"

// ofParams are huma's messages for parameters, which are not variables.
var ofParams = map[string]string{
	"required query parameter is missing": isMissing, "required header parameter is missing": isMissing, "required path parameter is missing": isMissing,
	"invalid integer": mustBeWhole, "invalid float": both("must be a number", "须为数字"), "invalid boolean": both("must be true or false", "须为是或否"),
}

const humaUnknownQuery = "unknown query parameter"

// inOurWords turns huma's message about a field into a sentence with the field's name,
// without the parts that must not be repeated, and into its Chinese.
func inOurWords(d huma.ErrorDetail, op *huma.Operation) (flaw Flaw, chinese string) {
	if says := ofParams[d.Message]; says != "" {
		d.Message = says
	}
	switch {
	case d.Message == humaUnknownQuery:
		d.Message = knownQuery(op)
	case strings.HasPrefix(d.Message, missingMember):
		d.Location += "." + strings.TrimPrefix(d.Message, missingMember)
		d.Message, d.Value = isMissing, nil
	case d.Location == "body" && strings.HasPrefix(d.Message, "body."): // from readJSON
		d.Location, d.Message, _ = strings.Cut(d.Message, " ")
		d.Value = nil
	case strings.HasPrefix(d.Message, "invalid date/time"):
		d.Message = mustBeTime
	}
	if !quotable(d.Location, op) {
		d.Value = nil
	}
	d.Message, chinese, _ = strings.Cut(d.Message, betweenLanguages)
	if d.Location == "body" && strings.HasPrefix(d.Message, "The body") {
		return &d, chinese
	}
	_, name, inside := strings.Cut(d.Location, ".")
	if !inside {
		name = "The " + d.Location
	}
	d.Message = shorten(name, maxQuoted) + " " + plainNumber(d.Message) + "."
	if chinese != "" {
		chinese = plainNumber(chinese) + "。"
	}
	return &d, chinese
}

// knownQuery says which query parameters a route takes.
func knownQuery(op *huma.Operation) string {
	var names []string
	if op != nil {
		for _, p := range op.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return both("is not a known parameter; this route takes no query parameters", "不支持该参数")
	}
	known := strings.Join(names, ", ")
	return both("is not a known parameter; this route takes "+known, "不支持该参数，可用："+known)
}

// plainNumber formats the bound in a sentence as people write it: huma keeps bounds
// as floats, which have an exponent when they are large, and uses the plural for one
// character.
func plainNumber(sentence string) string {
	for many, one := range map[string]string{" 1 characters": " 1 character", " 1 entries": " 1 entry"} {
		if start, ok := strings.CutSuffix(sentence, many); ok {
			return start + one
		}
	}
	at := strings.LastIndexByte(sentence, ' ') + 1
	if n, err := strconv.ParseFloat(sentence[at:], 64); err == nil {
		return sentence[:at] + strconv.FormatFloat(n, 'f', -1, 64)
	}
	return sentence
}

// jsonFormat is how bodies are written and read.
var jsonFormat = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: readJSON}

func init() {
	// encoding/json finds a struct's field by its name in any case. The schema must
	// see each member under the name of the field that it sets; process-wide, like
	// the messages.
	huma.ValidateStrictCasing = true
}

// readJSON parses a body, twice for each request: into a tree for the schema check,
// where numbers keep their digits, and into the handler's input. It refuses a body
// whose two readings could differ: of a repeated name the tree keeps the last value,
// and a struct merges all of them. Its errors are sentences, or begin with the
// location of the invalid field, see inOurWords.
func readJSON(body []byte, into any) error {
	tree, ok := into.(*any)
	if !ok {
		return inFields(json.Unmarshal(body, into))
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(tree); err != nil {
		return asText(err, len(body))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf(both("The body has extra data after its JSON, from byte %d on.", "请求体的 JSON 之后还有内容，从第 %[1]d 字节开始。"), dec.InputOffset()) //nolint:revive,staticcheck // a sentence for the client
	}
	return distinct(body)
}

// distinct refuses a body that names a member twice in one object, or has a text with
// a NUL, which Postgres cannot store. body is valid JSON.
func distinct(body []byte) error {
	// Texts that are not UTF-8 are repaired, as by encoding/json.
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return twice(dec, err)
		case err != nil:
			return asText(err, len(body))
		case token.Kind() == '"' && strings.IndexByte(token.String(), 0) >= 0:
			return errNUL
		}
	}
}

var errNUL = errors.New(both("The body has a text with the character U+0000, which cannot be stored.", "请求体含有字符 U+0000，无法保存。")) //nolint:revive,staticcheck // a sentence for the client

// plainName is a name that a sentence can contain.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// twice names the member at which a decoder has failed.
func twice(dec *jsontext.Decoder, err error) error {
	var at strings.Builder
	at.WriteString("body")
	if repeated, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		level := 0
		for name := range repeated.JSONPointer.Tokens() {
			level++
			if kind, _ := dec.StackIndex(level); kind == '[' {
				at.WriteString("[" + name + "]")
				continue
			}
			if !plainName.MatchString(name) {
				return errors.New(both("The body has a name twice in one object.", "请求体的同一对象中有重复的字段。")) //nolint:revive,staticcheck // a sentence for the client
			}
			at.WriteString("." + name)
		}
	}
	return fmt.Errorf(both("%s is given twice", "重复填写"), at.String()) // read by inOurWords
}

// asText reports where a body stops being JSON, without quoting it.
func asText(err error, length int) error {
	at := int64(length)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	if at >= int64(length) {
		return errors.New(both("The body is not JSON: it ends too early.", "请求体不是完整的 JSON。")) //nolint:revive,staticcheck // as above
	}
	return fmt.Errorf(both("The body is not JSON: byte %d does not belong there.", "请求体不是有效的 JSON：第 %[1]d 字节有误。"), at) //nolint:revive,staticcheck // as above
}

// inFields reports which field of a body that passed the schema does not fit its
// type.
func inFields(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		says := both("must be of another type", "类型不正确")
		if kind := wrong.Type.Kind(); kind >= reflect.Int && kind <= reflect.Int64 {
			says = fmt.Sprintf(both("must be a whole number of at most %d, written without a point", "须为整数，不带小数点，不能大于 %[1]d"), int64(1)<<(wrong.Type.Bits()-1)-1)
		}
		return fmt.Errorf("body.%s %s", wrong.Field, says) // read by inOurWords
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf(both("The body has a time that is not %s.", "请求体中的时间格式不正确。"), aTime) //nolint:revive,staticcheck // as above
	}
	return errors.New(both("The body has a value of the wrong type for its field.", "请求体中有字段的类型不正确。")) //nolint:revive,staticcheck // as above
}
