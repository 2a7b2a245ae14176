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

// unknownVariables are the STAMPEDE_… variables that no command knows, each as
// a sentence without its full stop. A mistyped variable silently leaves a
// default in force. It is not an error, because other programs may use
// variables with this prefix.
type unknownVariables []string

// foreign are variables with our prefix that are meant for others: the tests,
// and those that Kubernetes sets for services called stampede.
var foreign = regexp.MustCompile(`^STAMPEDE_(TEST_.*|.*_TEST_.*|TOOLS|SCREENSHOT|UPDATE_.*|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT(_\d+_(TCP|UDP).*)?)$`)

// prefix begins the name of each of our variables.
const prefix = "STAMPEDE_"

// findUnknownVariables searches an environment, a list of name=value.
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
		said := name + " is not a setting"
		if near := config.Nearest(strings.TrimPrefix(name, prefix), bare); near != "" {
			said += "; did you mean " + prefix + near + "?"
		}
		found = append(found, said)
	}
	slices.Sort(found)
	return found
}

// warn logs them once, in the log of a server.
func (s unknownVariables) warn(ctx context.Context, log *slog.Logger) {
	if len(s) > 0 {
		log.WarnContext(ctx, "unknown variables have no effect", "variables", []string(s))
	}
}

// variablesOf lists the variables of a command and its subcommands.
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

// String returns one line per variable.
func (s unknownVariables) String() string {
	var b strings.Builder
	for _, said := range s {
		fmt.Fprintln(&b, "stampede:", said)
	}
	return b.String()
}
