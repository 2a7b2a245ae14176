package qrlogin

import (
	"context"
	"net/netip"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
)

// asked is a new QR login.
type asked struct {
	id        ids.ID
	secret    string
	expiresAt time.Time
}

// ask opens a QR login for a device.
func (s *Service) ask(ctx context.Context, d login.Device) (asked, error) {
	if err := s.deps.Guard.KeepOut("qr-ask", 0, "", d.ID, d.Address); err != nil {
		return asked{}, err
	}
	if err := s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.PerAddress, Key: ratelimit.AddrKey(d.Address)}); err != nil {
		return asked{}, err
	}
	a := asked{id: newID()}
	var hash []byte
	a.secret, hash = newSecret()
	expiresAt, err := s.db.Ask(ctx, qrlogindb.AskParams{
		ID: a.id, PollHash: hash, DeviceKind: d.Kind, DeviceID: d.ID, DeviceName: d.Name, Address: known(d.Address),
		LifetimeSeconds: codeLifetime.Seconds(),
	})
	if err != nil {
		return asked{}, unreachable("ask", err)
	}
	a.expiresAt = expiresAt
	s.steps.WithLabelValues("asked").Inc()
	return a, nil
}

// url is the content of the picture. A scanner other than the shop's app opens the
// shop's page.
func (s *Service) url(id ids.ID) string { return s.cfg.BaseURL + "/?qr=" + id.String() }

// known converts an address for the database: NULL when it is unknown.
func known(addr netip.Addr) *netip.Addr {
	if !addr.IsValid() {
		return nil
	}
	return &addr
}

// address converts an address from the database.
func address(addr *netip.Addr) netip.Addr {
	if addr == nil {
		return netip.Addr{}
	}
	return *addr
}
