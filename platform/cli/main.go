package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"stampede/platform/embedded"
	"stampede/platform/failpoint"
)

// Main parses args into a table of commands, carries one out and returns the
// exit code: 0 done, 1 it failed, 2 the command line is wrong, others as
// platform/embedded says. The first SIGINT or SIGTERM ends ctx, which stops a
// server in order; the second ends the process.
func Main(ctx context.Context, table any, args []string, io Streams, serve Server, prove Prover, version Version) int {
	if err := failpoint.Arm(os.Getenv(failpoint.Variable), io.Err); err != nil {
		_, _ = fmt.Fprintln(io.Err, "stampede:", err)
		return 2
	}
	exit := -1
	parser, err := kong.New(table, kong.Name("stampede"), kong.Writers(io.Out, io.Err), kong.Exit(func(code int) { exit = code }),
		kong.Description("A flash-sale system that sells every unit once and can prove it."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
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
		_, _ = fmt.Fprintf(io.Err, "stampede: %v\nTry: stampede --help\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // gives the signals back, so that a second one kills
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(io, serve, prove, version)
	if err := command.Run(); err != nil {
		_, _ = fmt.Fprintln(io.Err, "stampede:", err)
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			return coded.ExitCode()
		}
		return 1
	}
	return 0
}
