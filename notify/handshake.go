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
	errNoUpgrade = fault.New(fault.BadRequest, "upgrade-required",
		fault.T("This address accepts WebSocket connections only", "此地址仅支持 WebSocket 连接"),
		fault.T("Open this address as a WebSocket; GET /api/v1/orders/{no} returns an order without it.",
			"请以 WebSocket 打开此地址；不用 WebSocket 时可用 GET /api/v1/orders/{no} 查询订单。"),
		fault.T("Connect by WebSocket, or poll GET /api/v1/orders/{no}.", "请使用 WebSocket 连接，或改用订单查询接口轮询。"))
	errForeign = fault.Plain(fault.Forbidden,
		fault.T("Pages of this origin may not connect; the operator can allow it.", "该来源的页面不能连接，运营人员可将其加入允许列表。"))
	errHandshake = fault.Plain(fault.BadRequest,
		fault.T("The WebSocket handshake is not valid: this server supports version 13 with one Sec-WebSocket-Key.",
			"WebSocket 握手无效：仅支持版本 13，且只能有一个 Sec-WebSocket-Key。"))
	errUnnamed = fault.Plain(fault.Unavailable,
		fault.T("Too many connections wait for their token. Offer it with the handshake, or try again in a moment.",
			"等待令牌的连接过多，请在握手时携带令牌，或稍后重试。")).After(time.Second)
	errNoUpgrader = fault.Plain(fault.Internal,
		fault.T("This connection cannot be upgraded to a WebSocket.", "该连接无法升级为 WebSocket。"))
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
