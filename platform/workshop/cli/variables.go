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
	for _, arg := range n.Positional {
		known = append(known, arg.Tag.Envs...)
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

// given contains the flags set on the command line, as opposed to a variable or
// a default.
type given map[string]bool

func givenOn(command *kong.Context) given {
	g := given{}
	for _, p := range command.Path {
		if p.Flag != nil && !p.Resolved {
			g[p.Flag.Name] = true
		}
	}
	return g
}

// letDataWin clears values that come only from variables if the command line
// names a stack's folder: flags tagged `found` are then looked up there.
// Otherwise, in a shell with the variables of another shop, those would
// silently win.
func (g given) letDataWin(command *kong.Context) {
	if !g["data"] {
		return
	}
	for _, f := range command.Selected().Flags {
		if f.Tag.Has("found") && !g[f.Name] {
			f.Target.SetZero()
		}
	}
}

// keySource returns a sentence that names the folder of the signing key if it
// is the default one, not given on the command line: a machine may have
// several, and tokens of the wrong one are refused without a hint. known tells
// whether a flag or variable has the key. With a variable the sentence is
// empty: in a container's terminal it would mix with the tokens.
func (g given) keySource(known bool, data string) string {
	if known || g["data"] {
		return ""
	}
	return "Signed with the key of " + data + "; --data names another folder."
}
