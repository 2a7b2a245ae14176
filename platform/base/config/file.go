package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// File contains the settings of the YAML file that --config names: a mapping
// from flag names, without their dashes, to values or lists of values.
type File struct {
	name    string
	entries map[string]entry
}

// entry is a setting in the form its flag would take.
type entry struct {
	value string
	line  int
}

// read is a parser hook that runs between the command line and the defaults.
func (f *File) read(command *kong.Context, at *kong.Path) error {
	if at.Command == nil || at.Command != command.Selected() {
		return nil
	}
	known := map[string]bool{}
	for _, flag := range at.Command.Flags {
		// A flag without a variable is an instruction for one start, such as
		// --fresh, not a setting.
		known[flag.Name] = len(flag.Envs) > 0 && flag.Name != "config"
		if flag.Name == "config" {
			f.name = fmt.Sprint(command.FlagValue(flag))
		}
	}
	if f.name == "" {
		return nil
	}
	raw, err := os.ReadFile(f.name)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := f.parse(raw, at.Command.Name, known); err != nil {
		return err
	}
	command.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if e, ok := f.entries[flag.Name]; ok && variable(flag) == "" {
			return e.value, nil
		}
		return nil, nil // kong's convention for an absent setting
	}))
	return nil
}

// parse records the entries and reports each that is not a setting of the command.
func (f *File) parse(raw []byte, command string, known map[string]bool) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("--config: %s is not valid YAML: %w", f.name, err)
	}
	f.entries = map[string]entry{}
	if len(doc.Content) == 0 {
		return nil // an empty file
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("--config: %s must have lines such as max-sockets: 10000", f.name)
	}
	var names []string
	for name, setting := range known {
		if setting {
			names = append(names, name)
		}
	}
	var wrong []error
	for pairs := doc.Content[0].Content; len(pairs) > 0; pairs = pairs[2:] {
		key, value := pairs[0], pairs[1]
		at := fmt.Sprintf("--config: %s:%d: %s", f.name, key.Line, key.Value)
		text, ok := text(value)
		switch earlier, twice := f.entries[key.Value]; {
		case !known[key.Value]:
			sentence := fmt.Sprintf("%s is not a setting of %s", at, command)
			if near := Nearest(key.Value, names); near != "" {
				sentence += "; did you mean " + near + "?"
			}
			wrong = append(wrong, errors.New(sentence))
		case twice:
			wrong = append(wrong, fmt.Errorf("%s is already set in line %d", at, earlier.line))
		case !ok:
			wrong = append(wrong, fmt.Errorf("%s must be one value or a list of values", at))
		default:
			f.entries[key.Value] = entry{text, key.Line}
		}
	}
	return errors.Join(wrong...)
}

// text formats a value as its flag would take it.
func text(value *yaml.Node) (string, bool) {
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		return "", true
	case value.Kind == yaml.ScalarNode:
		return value.Value, true
	case value.Kind != yaml.SequenceNode:
		return "", false
	}
	var list []string
	for _, one := range value.Content {
		if one.Kind != yaml.ScalarNode {
			return "", false
		}
		list = append(list, one.Value)
	}
	return kong.JoinEscaped(list, ','), true
}

// variable returns the name of the variable that sets a flag, "" if none is set.
func variable(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

// source names where a flag's value comes from.
func (f *File) source(command *kong.Context, flag *kong.Flag) string {
	for _, p := range command.Path {
		if p.Flag == flag && !p.Resolved {
			return "flag"
		}
	}
	if name := variable(flag); name != "" {
		return "environment"
	}
	if e, ok := f.entries[flag.Name]; ok {
		return fmt.Sprintf("%s:%d", f.name, e.line)
	}
	return "default"
}

// Nearest returns the known name that a mistyped one was probably meant to be,
// "" if none is close: names that differ in more than a third of their letters
// are unrelated.
func Nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, k); d < least || d == least && best != "" && strings.Compare(k, best) < 0 {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance: how many letters must be changed, added
// or dropped to turn a into b.
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
