package cli

import (
	"context"
	"net/http"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

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
