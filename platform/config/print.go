package config

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Print writes every flag of a parsed command with its variable and effective
// value. Secrets show whether they are set and nothing else; a URL keeps its
// host, which is what one looks for, and loses its credentials.
func Print(w io.Writer, flags []*kong.Flag) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "SETTING\tVARIABLE\tVALUE") // errors surface at Flush
	for _, f := range flags {
		if f.Name == "help" {
			continue
		}
		variable := "-"
		if len(f.Envs) > 0 {
			variable = f.Envs[0]
		}
		_, _ = fmt.Fprintf(tw, "--%s\t%s\t%s\n", f.Name, variable, show(f))
	}
	return tw.Flush()
}

// show is a flag's value as one word of a table. A flag is secret by its own tag,
// beside its help text, so that nobody can add one and forget a list elsewhere.
func show(f *kong.Flag) string {
	v := f.Target
	if v.Kind() == reflect.Slice {
		if f.Tag.Has("secret") && v.Len() > 0 {
			return fmt.Sprintf("(set, %d of them)", v.Len())
		}
		return fmt.Sprint(v.Interface())
	}
	text := fmt.Sprint(v.Interface())
	if !f.Tag.Has("secret") {
		if text == "" {
			return "(empty)"
		}
		return text
	}
	return hide(text)
}

// hide replaces a secret: a URL loses user, password and query, anything else
// everything.
func hide(secret string) string {
	if secret == "" {
		return "(not set)"
	}
	if scheme, rest, ok := strings.Cut(secret, "://"); ok {
		if i := strings.LastIndex(rest, "@"); i >= 0 {
			rest = rest[i+1:]
		}
		rest, _, _ = strings.Cut(rest, "?")
		if p, err := url.PathUnescape(rest); err == nil {
			rest = p
		}
		return scheme + "://" + rest
	}
	return fmt.Sprintf("(set, %d bytes)", len(secret))
}
