package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/base/failpoint"
	"stampede/platform/workshop/embedded"
)

// Main parses args into the table of commands, runs one and returns the exit
// code: 0 success, 1 failure (of verify: a promise is broken), 2 the command
// line or a setting is wrong, 3 verify could not check, 10 to 29 see
// platform/workshop/embedded, 30 to 36 a store cannot be used (see
// exitStoreRefused and the constants below it), 130 interrupted before
// completion. The first SIGINT or SIGTERM ends ctx, which shuts a server down
// in order; the second kills the process and its children, with exit code 130.
func Main(ctx context.Context, p Program, args []string, io Streams) int {
	if err := failpoint.Arm(os.Getenv(failpoint.Variable), io.Err); err != nil {
		tell(io.Err, "", err)
		return exitUsage
	}
	exit, file := -1, new(config.File)
	parser, err := kong.New(p.Commands(), kong.Name("stampede"), kong.Writers(io.Out, io.Err), kong.Exit(func(code int) { exit = code }),
		kong.Description("A flash-sale system that sells every unit once and can prove it."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		config.Options(file), kong.Vars{"data": embedded.DefaultDataDir()})
	if err != nil {
		tell(io.Err, "", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help has been printed
		return exit
	}
	unknown := findUnknownVariables(os.Environ(), parser.Model)
	if err != nil {
		name := blamed(err)
		tell(io.Err, name, err)
		_, _ = fmt.Fprint(io.Err, unknown)
		_, _ = fmt.Fprintf(io.Err, "Try: %s --help\n", strings.TrimSpace("stampede "+name))
		return exitUsage
	}
	flags := givenOn(command)
	flags.letDataWin(command)
	last := &lastResort{}
	ctx, stop := interruptible(ctx, last, io.Err)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(effective(func() []config.Setting { return config.Effective(command, file) }))
	command.Bind(io, p.Serve, p.Prove, p.Reconcile, p.Statement, p.Version, file, unknown, flags, last)
	if err := command.Run(); err != nil {
		if ctx.Err() != nil && interrupted(err) {
			_, _ = fmt.Fprintln(io.Err, "stampede: interrupted before it was done")
			return exitInterrupted
		}
		tell(io.Err, "", err)
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
	// exitInterrupted is a shell's exit code for a program ended by SIGINT.
	exitInterrupted = 130
)

// tell prints an error as one line per sentence. The parser puts the command's
// name only before the first; it applies to all of them.
func tell(out io.Writer, command string, err error) {
	prefix := "stampede: "
	text := err.Error()
	if rest, named := strings.CutPrefix(text, command+": "); named {
		prefix, text = prefix+command+": ", rest
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Fprintln(out, prefix+strings.TrimSuffix(line, "\n"))
	}
}

// blamed returns the command of a wrong command line, as far as it is known.
func blamed(err error) string {
	if at, ok := errors.AsType[*kong.ParseError](err); ok && at.Context != nil && at.Context.Selected() != nil {
		_, path, _ := strings.Cut(at.Context.Selected().FullPath(), " ")
		return path
	}
	return ""
}
