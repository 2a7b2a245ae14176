package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/base/telemetry"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Base is the part of a server's settings that the commands need. main's
// settings embed it beside those of the modules.
type Base struct {
	Keys      auth.Settings      `embed:"" group:"Required (run makes its own):"`
	Addresses httpx.Addresses    `embed:"" group:"Addresses:"`
	Logs      telemetry.Settings `embed:"" group:"Logs and traces:"`
	Drill     bool               `name:"practice" env:"STAMPEDE_PRACTICE" help:"Allow the sandboxes although other machines can reach this server: for a drill without real shoppers. run implies it." group:"Practice:"`
}

// Settings are a server's settings, defined in main; run, serve and config share them.
type Settings struct {
	File    string         `name:"config" env:"STAMPEDE_CONFIG" placeholder:"FILE" help:"YAML file of settings, each under its flag's name, e.g. max-sockets: 10000. A flag overrides a variable, a variable overrides the file."`
	HelpAll config.HelpAll `help:"Show every setting, including the rarely changed ones."`

	*Base        `kong:"-"`
	kong.Plugins        // the whole struct that Base is part of
	Practice     func() `kong:"-"` // sets the additions of run: the sandboxes of a shop without contracts
}

// check returns a sentence for each setting that is wrong.
func (s Settings) check() error {
	wrong := []error{config.Check(s.Plugins...)}
	if s.Addresses.Exposed() && !s.Drill {
		for _, flag := range s.practising() {
			wrong = append(wrong, fmt.Errorf("--%s is for drills, and other machines can reach this server by --listen or --public-url: remove it, use loopback addresses, or add --practice if no real shopper uses it", flag.Name))
		}
	}
	return errors.Join(wrong...)
}

// practising are the flags in use that no real shop has.
func (s Settings) practising() []*kong.Flag {
	return slices.DeleteFunc(config.Tagged("practice", s.Plugins...), func(f *kong.Flag) bool { return f.Target.IsZero() })
}

// refusal returns the errors with which serve refuses its settings before it
// checks the stores.
func refusal(s Settings, stores Stores) error {
	return errors.Join(stores.Check(), auth.CheckKey(s.Keys.SigningKey), s.check())
}

// effective returns the settings of the command that runs, secrets hidden.
type effective func() []config.Setting

// settingsInForce are a server's settings as `stampede config` prints them.
type settingsInForce struct {
	Data []config.Setting `json:"data" nullable:"false"`
}

// showSettings lets admins read the settings with which this instance was started, without
// a look at its command line.
func showSettings(rt *httpx.Router, list effective) {
	inForce := settingsInForce{list()}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/settings", ID: "list-settings", Tag: "operator", Role: auth.Admin,
		Summary: "The settings in force on the instance that answers, secrets hidden",
	}, func(context.Context, *struct{}) (*httpx.Output[settingsInForce], error) {
		return httpx.Answer(inForce), nil
	})
}
