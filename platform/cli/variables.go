package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"stampede/platform/failpoint"
)

// strays are the STAMPEDE_… variables that no command knows, each as a sentence
// without its end. A mistyped one is a default that nobody wanted; in a request's
// body it would be refused, but other programs may have variables of that name.
type strays []string

// foreign are variables of that name which are meant for others: the tests, and
// what Kubernetes tells of services called stampede.
var foreign = regexp.MustCompile(`^STAMPEDE_(TEST_.*|.*_TEST_.*|TOOLS|SCREENSHOT|UPDATE_.*|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_\d+_(TCP|UDP).*)?)$`)

// straysIn looks through an environment, which is a list of name=value.
func straysIn(environ []string, app *kong.Application) strays {
	known := variablesOf(app.Node)
	var found strays
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "STAMPEDE_") || slices.Contains(known, name) || foreign.MatchString(name) {
			continue
		}
		said := name + " is no setting"
		if near := nearest(name, known); near != "" {
			said += "; is " + near + " meant?"
		}
		found = append(found, said)
	}
	slices.Sort(found)
	return found
}

// warn says it once, in the log of a server.
func (s strays) warn(ctx context.Context, log *slog.Logger) {
	if len(s) > 0 {
		log.WarnContext(ctx, "variables that no command knows have no effect", "variables", []string(s))
	}
}

// variablesOf lists the variables that a command and those below it know.
func variablesOf(n *kong.Node) []string {
	known := []string{failpoint.Variable}
	for _, f := range n.Flags {
		known = append(known, f.Envs...)
	}
	for _, child := range n.Children {
		known = append(known, variablesOf(child)...)
	}
	return known
}

// nearest is the known name that a mistyped one is probably meant to be, "" where
// none is near: two names that differ in more than a third are two names.
func nearest(name string, known []string) string {
	near := slices.MinFunc(known, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(name, a), distance(name, b)), strings.Compare(a, b))
	})
	if own := len(name) - len("STAMPEDE_"); distance(name, near) > max(1, own/3) {
		return ""
	}
	return near
}

// distance is how many letters have to be changed, added or left out to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// String is one line for each.
func (s strays) String() string {
	var b strings.Builder
	for _, said := range s {
		fmt.Fprintln(&b, "stampede:", said)
	}
	return b.String()
}
