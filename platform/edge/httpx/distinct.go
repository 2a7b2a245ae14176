package httpx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// level is an object or a list that encloses the current token.
type level struct {
	names map[string]struct{} // of an object so far; nil in a list
	name  string              // of an object's current member
	named bool                // the next token is that member's value
	index int                 // of a list's next entry
}

// distinct refuses a body that names a member twice in one object, or has a text with
// a NUL, which Postgres cannot store. body is valid JSON.
func distinct(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var open []level
	for {
		token, err := dec.Token()
		if err != nil {
			return nil //nolint:nilerr // the end: the body was parsed before
		}
		var in *level
		if len(open) > 0 {
			in = &open[len(open)-1]
		}
		text, isText := token.(string)
		if isText && strings.IndexByte(text, 0) >= 0 {
			return errNUL
		}
		if name := text; isText && in != nil && in.names != nil && !in.named {
			in.name, in.named = name, true
			if _, again := in.names[name]; again {
				return twice(open)
			}
			in.names[name] = struct{}{}
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{names: map[string]struct{}{}})
			continue
		case json.Delim('['):
			open = append(open, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			if open = open[:len(open)-1]; len(open) == 0 {
				continue
			}
			in = &open[len(open)-1]
		}
		if in != nil { // a value has ended
			in.named = false
			in.index++
		}
	}
}

var errNUL = errors.New("The body has a text with the character U+0000, which cannot be stored.") //nolint:revive,staticcheck // a sentence for the client

// plainName is a name that a sentence can contain.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// twice names the member that is repeated in the innermost level.
func twice(open []level) error {
	var at strings.Builder
	at.WriteString("body")
	for _, l := range open {
		switch {
		case l.names == nil:
			at.WriteString("[" + strconv.Itoa(l.index) + "]")
		case plainName.MatchString(l.name):
			at.WriteString("." + l.name)
		default:
			return errors.New("The body has a name twice in one object.") //nolint:err113,revive,staticcheck // a sentence for the client
		}
	}
	return fmt.Errorf("%s is given twice", at.String()) //nolint:err113 // read by inOurWords
}
