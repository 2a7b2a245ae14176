// Package qrcode draws QR codes (ISO/IEC 18004) for screens.
package qrcode

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/boombuler/barcode/qr"
)

const (
	// Side is a picture's width and height in pixels.
	Side = 256
	// quietZone is the white margin that scanners need, in modules.
	quietZone = 4
)

// PNG is the picture of a text, Side pixels square, with error correction level M, which survives reflections on a
// screen, and modules of a whole number of pixels, because scaling would blur them. It
// fails for texts of more than some 1,200 bytes.
func PNG(text string) ([]byte, error) {
	code, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return nil, fmt.Errorf("qrcode: encode: %w", err)
	}
	modules := code.Bounds().Dx()
	pixels := Side / (modules + 2*quietZone)
	if pixels == 0 {
		return nil, fmt.Errorf("qrcode: %d modules do not fit into %d pixels", modules, Side)
	}
	margin := (Side - modules*pixels) / 2
	img := image.NewPaletted(image.Rect(0, 0, Side, Side), color.Palette{color.White, color.Black})
	for y := range modules * pixels {
		for x := range modules * pixels {
			if r, _, _, _ := code.At(x/pixels, y/pixels).RGBA(); r == 0 {
				img.SetColorIndex(margin+x, margin+y, 1)
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		return nil, fmt.Errorf("qrcode: encode picture: %w", err)
	}
	return out.Bytes(), nil
}
