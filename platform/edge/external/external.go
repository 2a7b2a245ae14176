// Package external is what a row keeps for the other systems of a shop: the id that it
// has there, and a flat map of texts that this program stores, returns and never reads.
// Shoppers see neither.
package external

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
	"stampede/platform/store/pg"
)

const (
	// MaxIDBytes fits a UUID, a document number with its prefix, or a path of short names.
	MaxIDBytes = 64
	// The limits of metadata are between those of Stripe, so that a shop which keeps its
	// numbers there can keep them here; a row's metadata is 11 KB of characters at most.
	maxKeys, maxKeyRunes, maxValueRunes = 20, 40, 500
)

// Metadata are a row's texts by their keys. The nil map is stored as the empty one.
type Metadata map[string]string

// OrEmpty returns the metadata, and the empty map for nil, as Postgres stores it.
func (m Metadata) OrEmpty() Metadata {
	if m == nil {
		return Metadata{}
	}
	return m
}

// Schema declares the bounds that OpenAPI has words for; Check has the others.
func (Metadata) Schema(huma.Registry) *huma.Schema {
	most, longest := maxKeys, maxValueRunes
	return &huma.Schema{
		Type: huma.TypeObject, MaxProperties: &most, AdditionalProperties: &huma.Schema{Type: huma.TypeString, MaxLength: &longest},
		Description: "Texts of the shop's own, up to 20 with keys of up to 40 characters; shoppers do not see them",
		Examples:    []any{map[string]any{"campaign": "2026-q4"}},
	}
}

// Patch changes what a row keeps for the shop's other systems.
type Patch struct {
	ExternalID *string   `json:"external_id,omitempty" maxLength:"64" pattern:"^[!-~]*$" patternDescription:"printable ASCII without spaces" doc:"What the shop's own system calls it; an empty text removes it"`
	Metadata   *Metadata `json:"metadata,omitempty" doc:"Replaces all keys"`
}

// Apply applies the patch to the columns of a row.
func (in *Patch) Apply(id **string, m *Metadata) {
	if in.ExternalID != nil {
		*id = pg.Null(*in.ExternalID)
	}
	if in.Metadata != nil {
		*m = in.Metadata.OrEmpty()
	}
}

// ValidID reports whether an id is 1 to MaxIDBytes characters of printable ASCII, none of
// them a space: such an id survives each sheet, log and URL that it passes through.
func ValidID(id string) bool {
	return id != "" && len(id) <= MaxIDBytes && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// IDRule is what ValidID accepts, in words.
var IDRule = fault.T("An external id has 1 to {most} characters of printable ASCII and no spaces.",
	"外部编号为 1 至 {most} 个可见的 ASCII 字符，不能含空格。", "most", MaxIDBytes)

// Check records what is wrong with a row's id, which may be nil, and its metadata.
func Check(f *fault.Flaws, location string, id *string, m Metadata) {
	if id != nil {
		f.Add(ValidID(*id), location+".external_id", *id, IDRule)
	}
	location += ".metadata"
	f.Add(len(m) <= maxKeys, location, nil, fault.T("Metadata has up to {most} keys.", "元数据最多 {most} 个键。", "most", maxKeys))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value, n := m[key], utf8.RuneCountInString(key)
		f.Add(n >= 1 && n <= maxKeyRunes && legible(key, ""), location, key,
			fault.T("A key of metadata has 1 to {most} characters, none of them a control character.",
				"元数据的键为 1 至 {most} 个字符，不能含有控制字符。", "most", maxKeyRunes))
		f.Add(utf8.RuneCountInString(value) <= maxValueRunes && legible(value, "\n\r\t"), location, key,
			fault.T("A value of metadata has up to {most} characters, and of control characters only line breaks and tabs.",
				"元数据的值最多 {most} 个字符，控制字符仅限换行和制表符。", "most", maxValueRunes))
	}
}

// legible reports that a text was sent as UTF-8 and has no control character but those allowed.
func legible(text, allowed string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || plaintext.Unruly(r) && !strings.ContainsRune(allowed, r)
	})
}
