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

// Print writes every setting of a parsed command with its variable, its effective
// value and where that comes from. Secrets show whether they are set and nothing
// else; a URL keeps its host, which is what one looks for, and loses its credentials.
func Print(w io.Writer, command *kong.Context, file *File) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "SETTING\tVARIABLE\tVALUE\tFROM") // errors surface at Flush
	for _, f := range command.Selected().Flags {
		if len(f.Envs) > 0 {
			_, _ = fmt.Fprintf(tw, "--%s\t%s\t%s\t%s\n", f.Name, f.Envs[0], show(f), file.source(command, f))
		}
	}
	return tw.Flush()
}

// show is a flag's value as one word of a table. A flag is secret by its own tag,
// beside its help text, so that nobody can add one and forget a list elsewhere.
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
		// Also where it is no secret: who put a password into it meant it for the other side only.
		return Places(text)
	case secret:
		return fmt.Sprintf("(set, %d bytes)", len(text))
	}
	return text
}

// Places is what of a URL says where it leads, without its credentials; of
// several, as a NATS cluster has them, what of each does.
func Places(text string) string {
	urls := strings.Split(text, ",")
	if slices.ContainsFunc(urls, func(u string) bool { return !strings.Contains(u, "://") }) {
		urls = []string{text} // the commas are within one
	}
	for i, u := range urls {
		scheme, rest, _ := strings.Cut(u, "://")
		urls[i] = scheme + "://" + place(scheme, rest)
	}
	return strings.Join(urls, ",")
}

// place keeps host and database of what follows a URL's scheme. The path of a web
// address goes with its credentials: many services put the secret of a webhook
// there. Nothing is kept where an @ follows the host: a password with a slash in
// it, which should have been escaped, would be taken for a path.
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
