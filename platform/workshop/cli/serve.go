package cli

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/office"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/demo"
	"stampede/platform/workshop/embedded"
)

// Server builds a server on a stack and serves until ctx ends. show adds the
// parts that only one of the commands has; it runs before the first request is
// answered.
type Server func(ctx context.Context, io Streams, start Stack, show func(Parts) error) error

// Stack starts a server's stores.
type Stack func(ctx context.Context, a *app.App) (Started, error)

// Started is what a server needs to know about its stores.
type Started struct {
	Stores Stores
	Key    string        // the signing key
	Died   <-chan error  // delivers the error of a store that cannot be started again; nil if the stores are external
	Probes []alarm.Probe // raise alarms about the stores
}

// Parts is what a command may show of a server.
type Parts struct {
	App    *app.App
	Router *httpx.Router
	Tokens *auth.Tokens
	Log    *slog.Logger
	Zone   *time.Location                                       // the shop's
	Books  func(ctx context.Context, itemID int64) (any, error) // one item's account, as JSON for the demo's page
	Prove  func(ctx context.Context) []proof.Outcome
	// Invite returns the secret that makes the shop's first admin, "" if it has one.
	Invite func(ctx context.Context) (string, error)
}

// Run is `stampede run`, the embedded default.
type Run struct {
	Settings  `embed:""`
	Data      string        `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Folder for all data. Created if missing; a second start continues with it."`
	Fresh     bool          `help:"Delete the data and start over, after asking."`
	Yes       bool          `short:"y" help:"Answer yes to that question."`
	RunAs     string        `env:"STAMPEDE_RUN_AS" help:"Account that root becomes, and that owns the data. Empty: the data's owner, else stampede, a system account that is added if missing."`
	DemoEvery time.Duration `default:"3m" env:"STAMPEDE_DEMO_EVERY" help:"Time between two openings of the demo sale, at least 10s."`
}

// Validate checks the flags before anything is started.
func (c *Run) Validate() error {
	c.Drill = true
	wrong := []error{c.check()}
	if c.Keys.SigningKey != "" {
		wrong = append(wrong, auth.CheckKey(c.Keys.SigningKey))
	}
	if c.DemoEvery < demo.MinEvery {
		wrong = append(wrong, fmt.Errorf("--demo-every must be at least %s, not %s", demo.MinEvery, c.DemoEvery))
	}
	return errors.Join(wrong...)
}

// Run starts the stack, then serves.
func (c *Run) Run(ctx context.Context, inForce effective, io Streams, serve Server, version Version, unknown unknownVariables, last *lastResort) error {
	if c.Fresh && !c.Yes {
		if err := embedded.ConfirmFresh(c.Data, os.Stdin, io.Err); err != nil {
			return err
		}
	}
	c.Practice()
	log := c.Logs.Logger(io.Err, nil)
	unknown.warn(ctx, log)
	said, noticed := announce(io.Out, c.Logs.LogFormat), announce(io.Err, c.Logs.LogFormat)
	steps := 0
	step := func(name string, took time.Duration) {
		steps++
		said.say(ctx, fmt.Sprintf("%2d  %-46s %5.1f s", steps, name, took.Seconds()), "step", "name", name, "took_seconds", took.Seconds())
	}
	var kill func(context.Context) error // ends Redis
	var began time.Time                  // when the steps after the stores began
	restarts := &restarts{}
	start := func(ctx context.Context, a *app.App) (Started, error) {
		parts, err := embedded.Start(ctx, embedded.Config{
			DataDir: c.Data, RunAs: c.RunAs, OwnAccount: true, Fresh: c.Fresh, Step: step, Emergency: last.arm, Restarted: restarts.note, Logger: log,
		})
		if err != nil {
			return Started{}, err
		}
		a.OnStop("postgres and redis", parts.Stop)
		kill = parts.KillRedis
		began = time.Now()
		for _, notice := range parts.Notices {
			noticed.say(ctx, notice, "data folder taken over", "detail", notice)
		}
		key, err := keepStack(parts.DataDir, Noted{
			BaseURL: c.Addresses.BaseURL(), MetricsURL: "http://" + c.Addresses.OpsListen + "/metrics",
			DatabaseURL: parts.DatabaseURL, RedisURL: parts.RedisURL, SigningKey: c.Keys.SigningKey,
		})
		stores := Stores{DatabaseURL: parts.DatabaseURL, RedisURL: parts.RedisURL, NATSDir: parts.NATSDir}
		return Started{Stores: stores, Key: key, Died: parts.Died(), Probes: []alarm.Probe{restarts.probe(), c.dangers(os.Args).probe(ctx, log)}}, err
	}
	err := serveToTheEnd(ctx, io, c.Logs.LogFormat, serve, start, func(s Parts) error {
		showSettings(s.Router, inForce)
		show, err := demo.New(demo.Deps{BaseURL: c.Addresses.BaseURL(), Tokens: s.Tokens, Books: s.Books, Prove: s.Prove, Log: s.Log, Zone: s.Zone, Every: c.DemoEvery, KillRedis: kill, Readiness: s.App.Readiness})
		if err != nil {
			return err
		}
		show.Routes(s.Router)
		if c.Addresses.PublicURL == "" && c.Addresses.OnlyHere() { // a public URL on loopback means a forwarded port
			warnOnlyHere(ctx, s.Log, c.Addresses.BaseURL())
		}
		s.App.OnStop("demo", show.Stop)
		s.App.Go("demo sales", show.Workers()...)
		step("start NATS, schema, modules, demo sale", time.Since(began))
		base := c.Addresses.BaseURL()
		live, docs, health := base+"/demo", base+"/docs", "http://"+c.Addresses.OpsListen+"/readyz"
		desk, err := backOffice(ctx, s, base, c.Logs.LogFormat)
		if err != nil {
			return err
		}
		try := fmt.Sprintf("%s rush --demo --data %s", word(self(os.Args[0])), word(c.Data))
		said.say(ctx, fmt.Sprintf("\nStampede %s is ready.\n  Shop        %s\n  Demo        %s\n  Back office %s\n  API         %s\n  Health      %s\n  Try         %s\nCtrl-C stops it in order; the data is kept.",
			version, base+"/", live, desk, docs, health, try), "ready", "version", version, "shop", base+"/", "demo", live, "back_office", desk, "api", docs, "health", health, "try", try)
		return nil
	})
	if taken, ok := errors.AsType[*embedded.StartError](err); ok && taken.Code == embedded.CodePortTaken {
		err = errors.Join(embedded.InUse(c.Data), err) // a second run with the same settings
	}
	return err
}

// Serve is `stampede serve`, with existing stores.
type Serve struct {
	Stores       `embed:""`
	Settings     `embed:""`
	EndWithInput bool `hidden:"" help:"End when the standard input does, as a child of bench."`
}

// Validate reports all errors together.
func (c *Serve) Validate() error { return refusal(c.Settings, c.Stores) }

// Run serves with given stores.
func (c *Serve) Run(ctx context.Context, inForce effective, io Streams, serve Server, version Version, unknown unknownVariables) error {
	log := c.Logs.Logger(io.Err, nil)
	unknown.warn(ctx, log)
	if c.NATSURL == "" {
		dir, former, err := streamsFolder(c.NATSDir)
		if err != nil {
			return err
		}
		if former {
			log.WarnContext(ctx, "the streams are in a folder that earlier versions took; set --nats-dir to it, so that every start finds them", "folder", dir)
		}
		c.NATSDir = dir
	}
	if c.EndWithInput {
		ended, end := context.WithCancel(ctx)
		defer end()
		ctx = ended
		go func() { _, _ = stdio.Copy(stdio.Discard, os.Stdin); end() }()
	}
	// The stores are external: there is nothing to start, nothing to stop and
	// no report of their death.
	start := func(ctx context.Context, a *app.App) (Started, error) {
		if err := reach(ctx, database(c.DatabaseURL), redisStore(c.RedisURL), natsStore(c.NATSURL)); err != nil {
			return Started{}, err
		}
		if c.NATSURL == "" {
			if err := holdFolder(a, c.NATSDir); err != nil {
				return Started{}, err
			}
		}
		dangers := c.dangers(os.Args, &c.Stores)
		return Started{Stores: c.Stores, Key: c.Keys.SigningKey, Probes: []alarm.Probe{dangers.probe(ctx, log)}}, nil
	}
	return serveToTheEnd(ctx, io, c.Logs.LogFormat, serve, start, func(s Parts) error {
		showSettings(s.Router, inForce)
		if c.Addresses.OnlyHere() {
			warnOnlyHere(ctx, s.Log, c.Addresses.BaseURL())
		}
		said := announce(io.Out, c.Logs.LogFormat)
		if c.NATSURL == "" {
			said.say(ctx, fmt.Sprintf("The embedded NATS keeps its streams in %s (--nats-dir)", c.NATSDir), "embedded nats", "folder", c.NATSDir)
		}
		health, url, at := "http://"+c.Addresses.OpsListen+"/readyz", c.Addresses.BaseURL(), ""
		if c.Addresses.PublicURL != "" { // a proxy's
			at = "; listens at " + c.Addresses.Listen
		}
		said.say(ctx, fmt.Sprintf("Stampede %s serves %s%s; health at %s", version, url, at, health),
			"serving", "version", version, "url", url, "listen", c.Addresses.Listen, "health", health)
		desk, err := backOffice(ctx, s, c.Addresses.BaseURL(), c.Logs.LogFormat)
		if err == nil {
			said.say(ctx, "The back office is at "+desk, "back office", "url", desk)
		}
		return err
	})
}

// backOffice is where the staff signs in: for the first admin, who has no password yet,
// a link that is a secret. Lines of JSON go to collectors that keep and index them, so
// the link is in a file there, which only this process's account reads. Each start
// replaces the file, and removes it once the shop has an admin.
func backOffice(ctx context.Context, s Parts, base, format string) (string, error) {
	desk := base + "/admin"
	secret, err := s.Invite(ctx)
	if err != nil {
		return desk, err
	}
	name := filepath.Join(os.TempDir(), "stampede-first-admin-"+filepath.Base(base))
	_ = os.Remove(name) // one that stays fails the exclusive creation below
	if secret == "" {
		return desk, nil
	}
	link := base + office.FirstAdminPath(secret)
	if format != "json" {
		return link + " (makes the first admin, for 24 hours)", nil
	}
	const private = 0o600
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private) // it follows no link that others made
	if err == nil {
		_, err = fmt.Fprintln(file, link)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		desk += " (the link that makes the first admin could not be written to a file, " + err.Error() +
			": start once with --log-format=text, which prints it)"
		return desk, nil //nolint:nilerr // the line says it, and the shop serves
	}
	return desk + " (the link that makes the first admin, for 24 hours, is in the file " + name + ")", nil
}

// warnOnlyHere warns that links would send other users to their own machine.
func warnOnlyHere(ctx context.Context, log *slog.Logger, url string) {
	log.WarnContext(ctx, "this server is reachable from other machines, but its links lead to loopback: set --public-url (STAMPEDE_PUBLIC_URL) to the address that shoppers and payment providers use",
		"links_begin_with", url)
}

// Listen binds addr for the process a, which shuts the server down when it stops,
// and replaces port 0 in addr by the real one. An address that cannot be bound is
// an error that names the flag.
func Listen(ctx context.Context, a *app.App, flag string, addr *string, bounds httpx.Connections, log *slog.Logger) (*httpx.Server, error) {
	server, err := httpx.Listen(ctx, *addr, bounds, log)
	if err != nil {
		return nil, embedded.PortError(flag, *addr, err)
	}
	a.OnStop(flag, server.Shutdown)
	*addr = server.Addr()
	return server, nil
}
