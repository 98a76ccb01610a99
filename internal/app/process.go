package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Process is what a running program is given, bound for kong: the Run method of a
// grammar or command may take a *Process and a context.Context.
type Process struct {
	// Name is the program's name, such as "duly-worker".
	Name string
	// Version is the worker version.
	Version string
	// Log is the process's logger, made from LogSettings where the program has them.
	Log *slog.Logger
	// Stdout and Stderr are where results and logs go.
	Stdout, Stderr io.Writer
}

// Program describes a program to Exec.
type Program struct {
	// Name and Description head its help.
	Name, Description string
	// Grammar is a pointer to its kong grammar, whose commands (or itself) have
	// Run(…) error.
	Grammar any
	// AdminAddr is the default of AdminSettings; empty means 127.0.0.1:0.
	AdminAddr string
	// LogText makes text the default of LogSettings, for programs that people watch.
	LogText bool
	// Options are further options of kong.
	Options []kong.Option
}

// Main runs the program with the arguments, signals and streams of this process, and
// returns its exit code: `func main() { os.Exit(app.Main(program)) }`. It makes Go collect
// its garbage less often than by default.
func Main(p Program) int {
	tuneGC(os.Getenv, debug.SetGCPercent)
	ctx, stop := Signals(context.Background(), os.Exit)
	defer stop()
	return Exec(ctx, p, os.Args[1:], os.Stdout, os.Stderr)
}

// Exec runs a program from its arguments to its exit code: 0 when it did what was
// asked, ExitUsage, with a hint, when the arguments or settings are wrong, 128 plus
// the signal's number when a signal cut it short, else what ExitCode says. Errors
// are printed to stderr.
func Exec(ctx context.Context, p Program, args []string, stdout, stderr io.Writer) int {
	process := &Process{Name: p.Name, Version: Version(), Stdout: stdout, Stderr: stderr}
	process.Log = NewLogger(stderr, slog.LevelInfo, p.LogText)
	ended := false // help and version ask kong to exit
	parser, err := kong.New(p.Grammar, append([]kong.Option{
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { ended = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Vars{"admin_addr": orElse(p.AdminAddr, "127.0.0.1:0"), "log_format": logFormat(p.LogText), "version": process.Version},
		kong.Bind(process),
		kong.BindTo(ctx, (*context.Context)(nil)),
	}, p.Options...)...)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return ExitFailed
	}
	command, err := parser.Parse(args)
	if ended {
		return ExitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n\nRun \"%s --help\" for what it takes.\n", p.Name, err, p.Name)
		return ExitUsage
	}
	if err = recovered(func() error { return command.Run() }); err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	var interrupted Interrupted
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &interrupted) {
		return exitSignal + number(interrupted.Signal)
	}
	return ExitCode(err)
}

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal os.Signal }

// Error names the signal.
func (i Interrupted) Error() string { return "stopped by signal: " + i.Signal.String() }

// Signals returns a context that SIGINT or SIGTERM ends, with Interrupted as its
// cause. A second signal ends the process at once through exit. stop releases the
// signals again.
func Signals(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-received:
				if !first {
					exit(exitSignal + number(s))
					return
				}
				cancel(Interrupted{s})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		close(done)
		cancel(nil)
	}
}

func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

func logFormat(text bool) string {
	if text {
		return "text"
	}
	return "json"
}

func orElse(s, otherwise string) string {
	if strings.TrimSpace(s) == "" {
		return otherwise
	}
	return s
}
