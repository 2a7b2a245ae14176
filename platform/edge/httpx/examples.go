package httpx

import (
	"maps"
	"regexp"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// examples makes an example of each JSON body from those of its members (the tag
// example). A member without one gets that of another member with its name and type, so
// that a name needs one example in the whole document.
type examples struct {
	schemas huma.Registry
	known   map[knownName]any
}

type knownName struct{ name, kind string }

// noExample is what a text gets for which nothing is known; a test refuses it.
const noExample = "string"

func newExamples(schemas huma.Registry) *examples {
	e := &examples{schemas, map[knownName]any{}}
	all := schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e.learn(all[name])
	}
	return e
}

// learn keeps the first example of a name: the same one whenever the document is made.
func (e *examples) learn(s *huma.Schema) {
	if s == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if key := (knownName{name, p.Type}); len(p.Examples) > 0 && e.known[key] == nil {
			e.known[key] = p.Examples[0]
		}
		e.learn(p)
	}
	e.learn(s.Items)
}

// add gives JSON bodies an example, unless their route has written one.
func (e *examples) add(content map[string]*huma.MediaType, answer bool) {
	if body := content["application/json"]; body != nil && body.Schema != nil && body.Example == nil && len(body.Examples) == 0 {
		body.Example = e.of("", body.Schema, answer)
	}
}

// of returns an example of the schema of a member. An answer has every member; a request
// those that it needs, its lists of parts, and those with an example of their own.
func (e *examples) of(name string, s *huma.Schema, answer bool) any {
	if s.Ref != "" {
		s = e.schemas.SchemaFromRef(s.Ref)
	}
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.OneOf) > 0:
		return e.of(name, s.OneOf[0], answer)
	case s.Type == huma.TypeArray:
		return []any{e.of(name, s.Items, answer)}
	case s.Type == huma.TypeObject:
		object := map[string]any{}
		for member, p := range s.Properties {
			if answer || slices.Contains(s.Required, member) || len(p.Examples) > 0 || p.Items != nil && p.Items.Ref != "" {
				object[member] = e.of(member, p, answer)
			}
		}
		return object
	}
	if known := e.known[knownName{name, s.Type}]; known != nil && fits(s.Pattern, known) {
		return known
	}
	return plain(s)
}

func fits(pattern string, example any) bool {
	text, ok := example.(string)
	return pattern == "" || ok && regexp.MustCompile(pattern).MatchString(text) // a pattern that does not compile fails at registration
}

// plain is an example of a value of which only the type is known.
func plain(s *huma.Schema) any {
	switch {
	case s.Format == "date-time":
		return "2026-11-11T12:00:00.000Z"
	case s.Format == "date":
		return "2026-11-11"
	case s.Type == huma.TypeBoolean:
		return true
	case s.Type == huma.TypeString:
		return noExample
	case s.Minimum != nil:
		return max(1, *s.Minimum)
	case s.Type == huma.TypeInteger, s.Type == huma.TypeNumber:
		return 1
	}
	return map[string]any{}
}
