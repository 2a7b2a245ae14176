package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Setting is a setting of a command as it is in force.
type Setting struct {
	Name     string `json:"name" example:"--log-level" doc:"The flag; without its dashes, the name in the file of --config"`
	Variable string `json:"variable" example:"STAMPEDE_LOG_LEVEL" doc:"The variable that sets the same"`
	Value    string `json:"value" doc:"A secret shows only whether it is set, an address only where it leads"`
	From     string `json:"from" example:"environment" doc:"flag, environment, the file with its line, or default"`
	Help     string `json:"help" doc:"What it does" example:"What may wait for a decision at most"`
}

// Effective returns every setting of a parsed command. A secret shows only whether it
// is set; a URL keeps its host, which operators look for, and loses its credentials.
func Effective(command *kong.Context, file *File) (list []Setting) {
	for _, f := range command.Selected().Flags {
		if len(f.Envs) > 0 {
			list = append(list, Setting{Name: "--" + f.Name, Variable: f.Envs[0], Value: show(f), From: file.source(command, f), Help: f.Help})
		}
	}
	return list
}

// Print writes every setting of a parsed command with its variable, its effective value
// and the source of that value.
func Print(w io.Writer, command *kong.Context, file *File) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "SETTING\tVARIABLE\tVALUE\tFROM") // errors surface at Flush
	for _, s := range Effective(command, file) {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Name, s.Variable, s.Value, s.From)
	}
	return tw.Flush()
}

// show formats a flag's value as one table cell. A flag is marked secret by its
// own tag, beside its help text, so that a new secret cannot be missing from a
// list elsewhere.
func show(f *kong.Flag) string {
	secret := f.Tag.Has("secret")
	text := fmt.Sprint(f.Target.Interface())
	if list, ok := reflect.TypeAssert[[]string](f.Target); ok {
		if secret && len(list) > 0 {
			return fmt.Sprintf("(set, %d of them)", len(list))
		}
		text = kong.JoinEscaped(list, f.Tag.Sep) // what the flag and the variable take
	}
	switch {
	case text == "":
		return "(empty)"
	case strings.Contains(text, "://"):
		// Also for flags that are not secret: a password in a URL is meant for
		// the remote side only.
		return Places(text)
	case secret:
		return fmt.Sprintf("(set, %d bytes)", len(text))
	}
	return text
}

// Places returns the part of a URL that says where it leads, without its
// credentials; for a list of URLs, as a NATS cluster has, that part of each. Of other
// text, such as a DSN of Postgres, it returns "…".
func Places(text string) string {
	if !strings.Contains(text, "://") {
		return "…"
	}
	urls := strings.Split(text, ",")
	if slices.ContainsFunc(urls, func(u string) bool { return !strings.Contains(u, "://") }) {
		urls = []string{text} // the commas are inside one URL
	}
	for i, u := range urls {
		scheme, rest, _ := strings.Cut(u, "://")
		urls[i] = scheme + "://" + place(scheme, rest)
	}
	return strings.Join(urls, ",")
}

// place keeps the host and database from what follows a URL's scheme. The path
// of a web address goes with its credentials: many services put the secret of a
// webhook there. If an @ follows the host, nothing is kept: an unescaped slash
// in the password would make the rest of it look like a path.
func place(scheme, rest string) string {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[strings.LastIndex(rest[:end], "@")+1:end], rest[end:]
	if strings.Contains(path, "@") {
		return "…"
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	if len(path) > 1 && strings.HasPrefix(scheme, "http") {
		path = "/…"
	}
	return host + path
}
