package qrlogin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/netip"

	"github.com/boombuler/barcode/qr"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/edge/ratelimit"
)

const (
	// pictureSide is the picture's width and height in pixels.
	pictureSide = 256
	// quietZone is the white margin that scanners need, in modules (ISO/IEC 18004).
	quietZone = 4
)

// picture is the QR code of an id as PNG. It contains no secret, so a page can show
// it in an <img>; a scanned or expired one is not drawn.
func (s *Service) picture(ctx context.Context, id ids.ID, from netip.Addr) ([]byte, error) {
	if err := s.take(ctx, ratelimit.Ask{Rule: s.cfg.PicturesPerAddress, Key: ratelimit.AddrKey(from)}); err != nil {
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
		return draw(s.url(id))
	default:
		return nil, errTaken
	}
}

// draw encodes a text with error correction level M, which survives reflections on a
// screen, with modules of a whole number of pixels, because scaling would blur them.
func draw(text string) ([]byte, error) {
	code, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return nil, fmt.Errorf("qrlogin: encode: %w", err)
	}
	modules := code.Bounds().Dx()
	pixels := pictureSide / (modules + 2*quietZone)
	if pixels == 0 {
		return nil, fmt.Errorf("qrlogin: %d modules do not fit into %d pixels", modules, pictureSide)
	}
	margin := (pictureSide - modules*pixels) / 2
	img := image.NewPaletted(image.Rect(0, 0, pictureSide, pictureSide), color.Palette{color.White, color.Black})
	for y := range modules * pixels {
		for x := range modules * pixels {
			if r, _, _, _ := code.At(x/pixels, y/pixels).RGBA(); r == 0 {
				img.SetColorIndex(margin+x, margin+y, 1)
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		return nil, fmt.Errorf("qrlogin: encode picture: %w", err)
	}
	return out.Bytes(), nil
}
