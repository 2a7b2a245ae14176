package office

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"slices"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
)

// Text is a text in English and Chinese.
type Text = fault.Text

// Section is what one module adds to the office.
type Section struct {
	// Files has the templates. Each page's file defines "content".
	Files fs.FS
	// Words are the API's enumerated values in words, and Own those that are called otherwise on
	// the section's own pages.
	Words, Own map[string]Text
	// Menu are the entries of the navigation, in this order.
	Menu  []Entry
	Pages []Page
	Acts  []Act
}

// Entry is a place in the navigation.
type Entry struct {
	Path string
	Name Text
	Role auth.Role // the least that sees it
	// Later puts it behind the entries of every day.
	Later bool
}

// Page is shown at GET Path.
type Page struct {
	Path     string // "/admin/things/{id}"
	Title    Text
	Role     auth.Role // the least that may read it
	Template string    // the file
	// Filters are the fields of a list's search form. Their values, with the page's
	// cursor, are the query of reads that take it.
	Filters []Field
	// Reads are the documents of the API that the template gets as Data.
	Reads []Read
	// Load replaces Reads where one request depends on another's answer.
	Load func(c *Call) (map[string]any, error)
	// Download is a path of the API whose answer is passed on as it is, while it is
	// written: a file, or events. The page has no template then.
	Download string
	// Attached is a file to save, as a template of an import; the page is only that.
	Attached func(c *Call) (name, body string)
}

// Read is one document that a page shows.
type Read struct {
	Name  string // in Data
	Path  string // of the API, with the page's {placeholders}
	Query bool   // the page's filters and cursor are its query
}

// Act is a form, sent to POST Path.
type Act struct {
	Path   string // "/admin/things/{id}/stop"
	API    string // the request that it makes: "POST /api/v1/admin/things/{id}/stop"
	Role   auth.Role
	Title  Text // of the form
	Button Text // of its button; the title unless given
	Fields []Field
	// Rows are further fields by the name of a row: a page repeats them (FormView.Rows),
	// and Make reads them (Call.ReadRow).
	Rows map[string][]Field
	// Warning says what the operator should know before.
	Warning Text
	// Dangerous marks what cannot be undone.
	Dangerous bool
	// Typed makes the operator type a text that the page passes as "typed".
	Typed bool
	// Again asks for the password again unless the operator has signed in within
	// freshFor: for money and roles, in case the computer was left unlocked.
	Again bool
	// Done says that it was done.
	Done Text
	// Then is the page that says so, where it is not the form's own; its {placeholders}
	// are members of the API's answer, or of the form's path.
	Then string
	// Shows is a member of the API's answer that is shown once, on a page of its own, such
	// as a secret.
	Shows string
	// Answer is the template that shows the API's answer as "answer" in Data, where it is more
	// than that it was done. Saved, if given, is the same as a file, whose address is "file".
	Answer string
	Saved  func(c *Call, answer map[string]any) (name, body string)
	// Sends is the File field whose content is the request's body as it is; the other fields
	// are its query.
	Sends string
	// Before is a page to look at before.
	Before Entry
	// On is the page that lists the form among its Acts, "" if a template places it. So
	// a module adds a form to a page of another one.
	On string
	// When reports whether the page lists it, from the page's documents, see In; nil is always.
	When func(data map[string]any) bool
	// With gives the form's values for Call.Act, see Values; nil is none.
	With func(data map[string]any) []any
	// Make makes the request's body, where it is not what the fields say, as from a file.
	// where names in words what a member of the body was made from, before what the API
	// says of it.
	Make func(c *Call, form url.Values) (body map[string]any, where func(location string) string, err error)
	// Body changes the request's body, where it is not what the fields say.
	Body func(form url.Values, body map[string]any) map[string]any
}

// In is for Act.When: a member of the page's documents, as Inside names it, has one of the values.
func In(member string, values ...any) func(data map[string]any) bool {
	return func(data map[string]any) bool { return slices.Contains(values, Inside(data, member)) }
}

// Values is for Act.With: pairs of a value's name and the member of the page's documents that it is.
func Values(pairs ...string) func(data map[string]any) []any {
	return func(data map[string]any) (values []any) {
		for pair := range slices.Chunk(pairs, 2) {
			values = append(values, pair[0], Inside(data, pair[1]))
		}
		return values
	}
}

// Kind is how a field is typed and sent.
type Kind uint8

// The kinds.
const (
	Line    Kind = iota // one line of text
	Area                // several lines of text
	Whole               // a whole number
	Number              // a number with decimals
	Price               // money: typed in the currency's main unit, sent as {amount, currency} in its minor one
	Minutes             // a length: typed in minutes, sent in seconds
	Choice              // one of Options
	Tick                // a check box: true, or left out
	Moment              // a date and time in the shop's zone
	Day                 // a date
	Lines               // a list, one member a line
	File                // a file, whose content is for Act.Make
)

// Field is an input of a form.
type Field struct {
	// Name is the member of the request's body; a dot separates nested members.
	Name     string
	Label    Text
	Help     Text
	Kind     Kind
	Required bool
	Max      int      // characters; 0 is unlimited here
	Options  []string // of a Choice; shown in words
	// Words are the options whose words differ from those of other documents.
	Words map[string]Text
	// Zero is what the office says to a Price of zero, for an API that takes it for
	// something else than what an operator means by 0.00; empty takes it.
	Zero Text
	// Hidden fields carry what the page knows, such as a version.
	Hidden bool
	// Blank is sent for an empty field, or a box without its tick; nil leaves it out.
	// An edit that leaves a member out keeps it.
	Blank any
}

// Null is a Blank that sends null.
var Null = json.RawMessage("null")
