package cli

import (
	"errors"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/base/telemetry"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Base is what the commands themselves need to know of a server's settings. main's
// settings embed it beside those of the modules.
type Base struct {
	Keys      auth.Settings      `embed:"" group:"Required (run makes its own):"`
	Addresses httpx.Addresses    `embed:"" group:"Addresses:"`
	Logs      telemetry.Settings `embed:"" group:"Logs and traces:"`
}

// Settings are those of a server: main's, of which run, serve and config take the
// same.
type Settings struct {
	File    string         `name:"config" env:"STAMPEDE_CONFIG" placeholder:"FILE" help:"YAML file of settings, each under its flag's name, e.g. max-sockets: 10000. A flag goes before a variable, a variable before the file."`
	HelpAll config.HelpAll `help:"Show every setting, the rarely changed ones too."`

	*Base        `kong:"-"`
	kong.Plugins        // the whole struct that Base is part of
	Practice     func() `kong:"-"` // sets what run adds: the sandboxes of a shop without contracts
}

// check returns a sentence for each setting that is wrong.
func (s Settings) check() error { return config.Check(s.Plugins...) }

// refusal is what serve asks of its settings before it looks at the stores.
func refusal(s Settings, stores Stores) error {
	return errors.Join(stores.Check(), auth.CheckKey(s.Keys.SigningKey), s.check())
}
