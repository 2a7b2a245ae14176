package notify

import (
	"net/http"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// Refusals of a handshake. 426 and 400 say what the library rejected, which
// helps client developers.
var (
	errNoUpgrade  = fault.New(fault.BadRequest, "upgrade-required", fault.Titles{"This address accepts WebSocket connections only", "此地址仅支持 WebSocket 连接"}, "Open this address as a WebSocket; GET /api/v1/orders/{no} returns an order without it.")
	errForeign    = fault.Plain(fault.Forbidden, "Pages of this origin may not connect; the operator can allow it.")
	errHandshake  = fault.Plain(fault.BadRequest, "The WebSocket handshake is not valid: this server supports version 13 with one Sec-WebSocket-Key.")
	errUnnamed    = fault.Plain(fault.Unavailable, "Too many connections wait for their token. Offer it with the handshake, or try again in a moment.").After(time.Second)
	errNoUpgrader = fault.Plain(fault.Internal, "This connection cannot be upgraded to a WebSocket.")
)

// problems leaves the decision about a handshake to the library, headers included,
// and turns its refusals into problem documents: a second implementation of its
// checks would eventually disagree with it.
type problems struct {
	http.ResponseWriter
	request *http.Request
	refused bool
}

// WriteHeader passes the upgrade on and writes everything else as a problem.
func (p *problems) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.refused = true
	err := errHandshake
	switch status {
	case http.StatusUpgradeRequired:
		p.Header().Set("Upgrade", "websocket") // RFC 9110 requires it with every 426
		err = errNoUpgrade
	case http.StatusForbidden:
		err = errForeign
	case http.StatusInternalServerError, http.StatusNotImplemented:
		err = errNoUpgrader
	}
	httpx.WriteProblemStatus(p.ResponseWriter, p.request, status, err)
}

// Write drops the library's own body after a refusal.
func (p *problems) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the connection.
func (p *problems) Unwrap() http.ResponseWriter { return p.ResponseWriter }
