package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// previewBytes is how much of an error a list shows, usually its first line.
const previewBytes = 300

// Beginning truncates an error's text for a list, without splitting a character.
func Beginning(s string) string {
	if len(s) <= previewBytes {
		return s
	}
	return strings.ToValidUTF8(s[:previewBytes], "") + "…"
}

// Content is a payload as the API shows it. Exactly one of the two is set.
type Content struct {
	Payload       string `json:"payload,omitempty" doc:"The message if it is text, as events are; personal data is masked" example:"{\"order_no\":\"0198f2c8b5d07c3e9a4f1b2c3d4e5f60\"}"`
	PayloadBinary []byte `json:"payload_binary,omitempty" doc:"The message in base64 if it is binary, as grants are" example:"AQID"`
}

// personal are the fields of a JSON payload that a reader of messages need not see.
var personal = map[string]bool{"phone": true, "email": true, "address": true, "recipient": true, "buyer": true, "note": true, "open_id": true}

// masked takes the place of personal data.
const masked = "***"

// ContentOf is a payload with the personal data of JSON masked, in each of its values if
// it has several.
func ContentOf(payload []byte) Content {
	if !utf8.Valid(payload) {
		return Content{PayloadBinary: payload}
	}
	in := json.NewDecoder(bytes.NewReader(payload))
	in.UseNumber() // numbers stay as they are written
	var values []string
	found := false
	for {
		var v any
		err := in.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if len(values) == 0 { // a text that is no JSON
				return Content{Payload: string(payload)}
			}
			found, values = true, append(values, masked) // what follows cannot be searched
			break
		}
		found = mask(v) || found
		text, err := json.Marshal(v)
		if err != nil {
			return Content{Payload: masked}
		}
		values = append(values, string(text))
	}
	if !found {
		return Content{Payload: string(payload)}
	}
	return Content{Payload: strings.Join(values, "\n")}
}

// mask masks personal data inside a decoded value and reports whether there was any.
func mask(v any) (found bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if personal[key] && inner != nil && inner != "" {
				v[key], found = masked, true
			} else if mask(inner) {
				found = true
			}
		}
	case []any:
		for _, inner := range v {
			if mask(inner) {
				found = true
			}
		}
	}
	return found
}
