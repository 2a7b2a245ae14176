package cli

import (
	"github.com/alecthomas/kong"
)

// given are the flags that stood on the command line, as against a variable or a
// default.
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

// letDataWin forgets what only variables say where the folder of a stack was named
// on the command line: what carries the tag `found` is looked up there then. A shell
// that serves a shop has the variables of that shop, and they would win silently.
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

// keySource says whose signing key is in use where it was found in a folder that
// nobody named on the command line: a machine may have several, and tokens of the
// wrong one are refused without a hint. known is whether flag or variable has it.
// With a variable nothing is said: in a container's terminal it would stand among
// the tokens.
func (g given) keySource(known bool, data string) string {
	if known || g["data"] {
		return ""
	}
	return "Signed with the key of " + data + "; --data names another folder."
}
