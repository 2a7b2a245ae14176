package qrlogin

import (
	"context"
	"errors"
	"net/netip"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/edge/qrcode"
	"stampede/platform/edge/ratelimit"
)

// picture is the QR code of an id as PNG. It contains no secret, so a page can show
// it in an <img>; a scanned or expired one is not drawn.
func (s *Service) picture(ctx context.Context, id ids.ID, from netip.Addr) ([]byte, error) {
	if err := s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.PicturesPerAddress, Key: ratelimit.AddrKey(from)}); err != nil {
		return nil, err
	}
	row, err := s.db.State(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errUnknown
	case err != nil:
		return nil, unreachable("picture", err)
	}
	switch stateOf(row) {
	case expired:
		return nil, errExpired
	case pending:
		return qrcode.PNG(s.url(id))
	default:
		return nil, errTaken
	}
}
