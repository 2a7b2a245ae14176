package httpx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// huma's messages for an unreadable request, and ours.
const humaCannotRead = "cannot read request body"

var wholes = map[string]string{
	humaCannotRead:              "The body ended too early or its HTTP framing is invalid; send the request again.",
	"request body is required":  "This route requires a JSON body, and none was sent.",
	"request body read timeout": "The body did not arrive in time; send the request again.",
}

// huma's validation messages, which are variables for this purpose: ours follow a
// field's name and complete a sentence. Those that include an error omit it (%.0s),
// because it is in Go's terms.
func init() {
	validation.MsgUnexpectedProperty = "is not known here"
	validation.MsgExpectedRFC3339DateTime = "must be " + aTime
	validation.MsgExpectedRFC3339Date = "must be a date like 2026-11-11"
	validation.MsgExpectedRFC3986URI = "must be a web address, as in https://shop.example/phone.png%.0s"
	validation.MsgExpectedRFC3986AbsoluteURI = "must be a web address, as in https://shop.example/phone.png"
	validation.MsgExpectedBoolean = "must be true or false"
	validation.MsgExpectedNumber = "must be a number"
	validation.MsgExpectedInteger = "must be a whole number"
	validation.MsgExpectedString = "must be a text"
	validation.MsgExpectedArray = "must be a list"
	validation.MsgExpectedObject = "must be an object"
	validation.MsgExpectedArrayItemsUnique = "must not have the same entry twice"
	validation.MsgExpectedOneOf = "must be one of %s"
	validation.MsgExpectedConst = "must be %v"
	validation.MsgExpectedMinimumNumber = "must be at least %v"
	validation.MsgExpectedExclusiveMinimumNumber = "must be more than %v"
	validation.MsgExpectedMaximumNumber = "must be at most %v"
	validation.MsgExpectedExclusiveMaximumNumber = "must be less than %v"
	validation.MsgExpectedNumberBeMultipleOf = "must be a multiple of %v"
	validation.MsgExpectedMinLength = "must have at least %d characters"
	validation.MsgExpectedMaxLength = "must have at most %d characters"
	validation.MsgExpectedBePattern = "must be %s"
	validation.MsgExpectedMatchPattern = "must be of the form %s"
	validation.MsgExpectedMinItems = "must have at least %d entries"
	validation.MsgExpectedMaxItems = "must have at most %d entries"
	validation.MsgExpectedRequiredProperty = missingMember + "%s"
}

// missingMember begins the message that huma reports for the object that lacks a
// member; it is rewritten to name the member.
const missingMember = "is missing: "

// aTime describes the format of a time in a body.
const aTime = "a time with its zone, as in 2026-11-11T20:00:00+08:00"

// ofParams are huma's messages for parameters, which are not variables.
var ofParams = map[string]string{
	"required query parameter is missing": "is missing", "required header parameter is missing": "is missing", "required path parameter is missing": "is missing",
	"invalid integer": "must be a whole number", "invalid float": "must be a number", "invalid boolean": "must be true or false",
}

const humaUnknownQuery = "unknown query parameter"

// inOurWords turns huma's message about a field into a sentence with the field's
// name, without the parts that must not be repeated.
func inOurWords(d huma.ErrorDetail, op *huma.Operation) Flaw {
	if says := ofParams[d.Message]; says != "" {
		d.Message = says
	}
	switch {
	case d.Message == humaUnknownQuery:
		d.Message = "is not known here; " + knownQuery(op)
	case strings.HasPrefix(d.Message, missingMember):
		d.Location += "." + strings.TrimPrefix(d.Message, missingMember)
		d.Message, d.Value = "is missing", nil
	case d.Location == "body" && strings.HasPrefix(d.Message, "body."): // from readJSON
		d.Location, d.Message, _ = strings.Cut(d.Message, " ")
		d.Value = nil
	case strings.HasPrefix(d.Message, "invalid date/time"):
		d.Message = "must be " + aTime
	}
	if !quotable(d.Location, op) {
		d.Value = nil
	}
	if d.Location == "body" && strings.HasPrefix(d.Message, "The body") {
		return &d
	}
	_, name, inside := strings.Cut(d.Location, ".")
	if !inside {
		name = "The " + d.Location
	}
	d.Message = shorten(name, maxQuoted) + " " + plainNumber(d.Message) + "."
	return &d
}

// knownQuery lists the query parameters of a route.
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
		return "this route takes no query parameters"
	}
	return "this route takes " + strings.Join(names, ", ")
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
		return fmt.Errorf("The body has extra data after its JSON, from byte %d on.", dec.InputOffset()) //nolint:err113,revive,staticcheck // a sentence for the client
	}
	return distinct(body)
}

// asText reports where a body stops being JSON, without quoting it.
func asText(err error, length int) error {
	at := int64(length)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	if at >= int64(length) {
		return errors.New("The body is not JSON: it ends too early.") //nolint:err113,revive,staticcheck // as above
	}
	return fmt.Errorf("The body is not JSON: byte %d does not belong there.", at) //nolint:err113,revive,staticcheck // as above
}

// inFields reports which field of a body that passed the schema does not fit its
// type.
func inFields(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		says := "must be of another type"
		if kind := wrong.Type.Kind(); kind >= reflect.Int && kind <= reflect.Int64 {
			says = fmt.Sprintf("must be a whole number of at most %d, written without a point", int64(1)<<(wrong.Type.Bits()-1)-1)
		}
		return fmt.Errorf("body.%s %s", wrong.Field, says) //nolint:err113 // read by inOurWords
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("The body has a time that is not %s.", aTime) //nolint:err113,revive,staticcheck // as above
	}
	return errors.New("The body has a value of the wrong type for its field.") //nolint:err113,revive,staticcheck // as above
}
