package cli

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/base/failpoint"
)

// unknownVariables are the STAMPEDE_… variables that no command knows, each as a sentence
// without its end. A mistyped one is a default that nobody wanted; in a request's
// body it would be refused, but other programs may have variables of that name.
type unknownVariables []string

// foreign are variables of that name which are meant for others: the tests, and
// what Kubernetes tells of services called stampede.
var foreign = regexp.MustCompile(`^STAMPEDE_(TEST_.*|.*_TEST_.*|TOOLS|SCREENSHOT|UPDATE_.*|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_\d+_(TCP|UDP).*)?)$`)

// prefix begins the name of every variable of ours.
const prefix = "STAMPEDE_"

// findUnknownVariables looks through an environment, which is a list of name=value.
func findUnknownVariables(environ []string, app *kong.Application) unknownVariables {
	known, bare := variablesOf(app.Node), []string(nil)
	for _, name := range known {
		bare = append(bare, strings.TrimPrefix(name, prefix))
	}
	var found unknownVariables
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || foreign.MatchString(name) {
			continue
		}
		said := name + " is no setting"
		if near := config.Nearest(strings.TrimPrefix(name, prefix), bare); near != "" {
			said += "; is " + prefix + near + " meant?"
		}
		found = append(found, said)
	}
	slices.Sort(found)
	return found
}

// warn says it once, in the log of a server.
func (s unknownVariables) warn(ctx context.Context, log *slog.Logger) {
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

// String is one line for each.
func (s unknownVariables) String() string {
	var b strings.Builder
	for _, said := range s {
		fmt.Fprintln(&b, "stampede:", said)
	}
	return b.String()
}
