package cli

import (
	"context"
	"log/slog"

	"stampede/platform/base/app"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/embedded"
)

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
