package cli

import (
	"github.com/alecthomas/kong"
)

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
