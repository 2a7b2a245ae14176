// Package config reads, checks and prints settings. It defines none itself:
// each package declares its own once, in a struct whose tags describe them
// fully, and main combines these structs. Beside kong's tags (name, default,
// env, enum, help, group) there are
//
//	min, max   the bounds of a number or a duration, which help and checks show
//	unit       what a number counts, for the error about a wrong one
//	rare       shown by --help-all only
//	secret     printed as set or not set, never in full
//	practice   for drills: serve refuses it where other machines can reach the server
//
// Rules that a bound cannot express go into the struct's method Check() error,
// which returns one sentence per wrong setting, joined. A flag takes precedence
// over a variable, a variable over the file, the file over the default.
package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Options make a parser understand the tags and read settings from f.
func Options(f *File) kong.Option {
	options := []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
		kong.ValueFormatter(func(v *kong.Value) string {
			shown := *v
			if b := boundsOf(v); b.known() {
				shown.Help += " " + strings.ToUpper(b.String()[:1]) + b.String()[1:] + "."
			}
			return kong.DefaultHelpValueFormatter(&shown)
		}),
		kong.PostBuild(func(k *kong.Kong) error {
			return kong.Visit(k.Model, func(n kong.Visitable, next kong.Next) error {
				if flag, ok := n.(*kong.Flag); ok && flag.Tag.Has("rare") {
					flag.Hidden = true
				}
				return next(nil)
			})
		}),
		kong.WithBeforeResolve(f.read),
	}
	return kong.OptionFunc(func(k *kong.Kong) error {
		var errs []error
		for _, o := range options {
			errs = append(errs, o.Apply(k))
		}
		return errors.Join(errs...)
	})
}

// HelpAll is the type of the flag --help-all, which also shows the rare settings.
type HelpAll bool

// BeforeReset prints the help and ends the parse, as kong's own --help does.
func (HelpAll) BeforeReset(command *kong.Context) error {
	for _, flag := range command.Selected().Flags {
		flag.Hidden = flag.Hidden && !flag.Tag.Has("rare")
	}
	err := command.PrintUsage(false)
	command.Exit(0)
	return err
}

// Defaults returns settings with every field at its default, ignoring flags,
// variables and the file. It panics if a tag is wrong.
func Defaults[T any]() T {
	var s struct {
		Settings T `embed:""`
	}
	parser := kong.Must(&s, Options(new(File)))
	for _, flag := range parser.Model.Flags {
		flag.Tag.Envs = nil
	}
	if _, err := parser.Parse(nil); err != nil {
		panic(err)
	}
	return s.Settings
}

// Check returns a sentence for each setting that is wrong, joined: those outside
// their bounds, then what the structs' own Check methods find. settings are
// pointers to structs.
func Check(settings ...any) error {
	parser, err := kong.New(&struct{ kong.Plugins }{settings}, Options(new(File)))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	var wrong []error
	for _, flag := range parser.Model.Flags {
		b := boundsOf(flag.Value)
		if n, ok := number(flag.Target); ok && b.known() && !(n >= b.least && n <= b.most) { // written so that NaN fails, too
			wrong = append(wrong, fmt.Errorf("--%s must be %s, not %v", flag.Name, b, flag.Target))
		}
	}
	for _, s := range settings {
		wrong = append(wrong, checks(reflect.ValueOf(s).Elem())...)
	}
	return errors.Join(wrong...)
}

// Tagged returns the flags of settings that have a tag, in their order. settings
// are pointers to structs.
func Tagged(tag string, settings ...any) []*kong.Flag {
	parser := kong.Must(&struct{ kong.Plugins }{settings}, Options(new(File)))
	return slices.DeleteFunc(parser.Model.Flags, func(f *kong.Flag) bool { return !f.Tag.Has(tag) })
}

// checks runs the Check methods of a struct and of the structs within it.
func checks(v reflect.Value) (wrong []error) {
	if own, ok := reflect.TypeAssert[interface{ Check() error }](v.Addr()); ok {
		wrong = append(wrong, own.Check())
	}
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Struct && v.Type().Field(i).IsExported() {
			wrong = append(wrong, checks(v.Field(i))...)
		}
	}
	return wrong
}

// bounds are what a setting's tags allow.
type bounds struct {
	min, max    string // as the tags spell them; empty means no bound
	noun, unit  string
	least, most float64
}

func (b bounds) known() bool { return b.min != "" || b.max != "" }

// String continues "must be".
func (b bounds) String() string {
	unit := b.unit
	if unit != "" {
		unit = " " + unit
	}
	of := strings.Replace(b.noun, "duration ", "duration of ", 1)
	switch {
	case b.max == "":
		return of + "at least " + b.min + unit
	case b.min == "":
		return of + "at most " + b.max + unit
	}
	return b.noun + "between " + b.min + " and " + b.max + unit
}

// boundsOf reads the tags. It panics on a bound that it cannot parse, since
// tags are part of the program.
func boundsOf(v *kong.Value) bounds {
	b := bounds{min: v.Tag.Get("min"), max: v.Tag.Get("max"), unit: v.Tag.Get("unit"), least: math.Inf(-1), most: math.Inf(1)}
	_, isDuration := reflect.TypeAssert[time.Duration](v.Target)
	if isDuration {
		b.noun = "a duration "
	}
	read := func(text string, bound *float64) {
		var err error
		var d time.Duration
		switch {
		case text == "":
		case isDuration:
			d, err = time.ParseDuration(text)
			*bound = float64(d)
		default:
			*bound, err = strconv.ParseFloat(text, 64)
		}
		if err != nil {
			panic(fmt.Errorf("config: bound of --%s: %w", v.Name, err))
		}
	}
	read(b.min, &b.least)
	read(b.max, &b.most)
	return b
}

// number is the value of a count, a share or a duration.
func number(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// duration parses a duration; its error for a bare number says that the unit is
// missing.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("a duration needs a unit, such as 30s, 5m or 1h30m; %q has none", text)
	}
	target.SetInt(int64(d))
	return nil
}
