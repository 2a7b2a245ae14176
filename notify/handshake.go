package notify

import (
	"net/http"

	"stampede/platform/fault"
	"stampede/platform/httpx"
)

// Refusals of a handshake. 426 and 400 say what the library found, which is
// for whoever writes a client.
var (
	errNoUpgrade  = fault.New(fault.BadRequest, "upgrade-required", "Open this address as a WebSocket; an order can be asked for with GET /api/v1/orders/{no} as well.")
	errForeign    = fault.New(fault.Forbidden, "forbidden", "Pages of this origin may not connect; the operator can allow it.")
	errHandshake  = fault.New(fault.BadRequest, "bad-request", "The WebSocket handshake is not valid: version 13 with one Sec-WebSocket-Key is spoken here.")
	errNoUpgrader = fault.New(fault.Internal, "internal", "This connection cannot be upgraded to a WebSocket.")
)

// problems lets the library decide about a handshake, headers included, and
// answers what it refuses as a problem document: asking its questions a second
// time would one day give another answer.
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
		p.Header().Set("Upgrade", "websocket") // RFC 9110 asks for it with every 426
		err = errNoUpgrade
	case http.StatusForbidden:
		err = errForeign
	case http.StatusInternalServerError, http.StatusNotImplemented:
		err = errNoUpgrader
	}
	httpx.WriteProblemStatus(p.ResponseWriter, p.request, status, err)
}

// Write drops the library's own words after a refusal.
func (p *problems) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap leads to the connection.
func (p *problems) Unwrap() http.ResponseWriter { return p.ResponseWriter }
