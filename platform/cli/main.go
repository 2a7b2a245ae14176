package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/embedded"
	"stampede/platform/failpoint"
)

// Main parses args into a table of commands, carries one out and returns the
// exit code: 0 done, 1 it failed (of verify: a promise is broken), 2 the command
// line is wrong, 3 verify could not look, 10 to 29 as platform/embedded says, 30
// to 36 a store cannot be used (see exitStoreRefused and its neighbours), 130
// interrupted before it was done. The first SIGINT or
// SIGTERM ends ctx, which stops a server in order; the second ends the process.
func Main(ctx context.Context, table any, args []string, io Streams, serve Server, prove Prover, version Version) int {
	if err := failpoint.Arm(os.Getenv(failpoint.Variable), io.Err); err != nil {
		_, _ = fmt.Fprintln(io.Err, "stampede:", err)
		return exitUsage
	}
	exit := -1
	parser, err := kong.New(table, kong.Name("stampede"), kong.Writers(io.Out, io.Err), kong.Exit(func(code int) { exit = code }),
		kong.Description("A flash-sale system that sells every unit once and can prove it."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
		kong.Vars{"data": embedded.DefaultDataDir()})
	if err != nil {
		_, _ = fmt.Fprintln(io.Err, "stampede:", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help has been printed
		return exit
	}
	if err != nil {
		_, _ = fmt.Fprintf(io.Err, "stampede: %v\nTry: %s --help\n", err, blamed(err))
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // gives the signals back, so that a second one kills
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(io, serve, prove, version)
	if err := command.Run(); err != nil {
		if ctx.Err() != nil && interrupted(err) {
			_, _ = fmt.Fprintln(io.Err, "stampede: interrupted before it was done")
			return exitInterrupted
		}
		_, _ = fmt.Fprintln(io.Err, "stampede:", err)
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			return coded.ExitCode()
		}
		return 1
	}
	return 0
}

const (
	exitUsage = 2
	exitBlind = 3
	// exitInterrupted is what a shell makes of a program that ended by SIGINT.
	exitInterrupted = 130
)

// blamed is the command that a mistake was made with, as far as it is known.
func blamed(err error) string {
	if at, ok := errors.AsType[*kong.ParseError](err); ok && at.Context != nil && at.Context.Selected() != nil {
		return "stampede " + at.Context.Selected().Name
	}
	return "stampede"
}

// duration reads a duration and says what is missing where it is a bare number.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("a duration has a unit, as 30s, 5m and 1h30m have; %q is none", text)
	}
	target.SetInt(int64(d))
	return nil
}

// interrupted reports whether err says only that the work was cut short. Whatever
// was under way complains about that in words of its own, which would send the
// reader after a fault that is none. What failed while it was put away counts.
func interrupted(err error) bool {
	if parts, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the parts, not one of them
		return !slices.ContainsFunc(parts.Unwrap(), func(e error) bool { return !interrupted(e) })
	}
	return errors.Is(err, context.Canceled)
}
