package qrcode

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"stampede/platform/workshop/qrtest"
	"stampede/platform/workshop/require"
)

// TestPictureEncodesTheText decodes pictures as a scanner does, with versions 2 to 6.
func TestPictureEncodesTheText(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, text := range []string{
		"https://a.cn/?qr=0",
		"https://a.cn/?qr=5b0e6f2d9c4a4f0e8",
		"http://127.0.0.1:8080/?qr=5b0e6f2d9c4a4f0e8d7c6b5a49382716",
		"https://sale.example.com/?qr=5b0e6f2d9c4a4f0e8d7c6b5a49382716",
		"https://sale.shop.example.com:8443/?qr=5b0e6f2d9c4a4f0e8d7c6b5a49382716",
		"https://" + strings.Repeat("a-long-name.", 4) + "example.com/?qr=5b0e6f2d9c4a4f0e8d7c6b5a49382716",
	} {
		raw, err := PNG(text)
		require.NoError(t, err)
		img, err := png.Decode(bytes.NewReader(raw))
		if err != nil || img.Bounds() != image.Rect(0, 0, Side, Side) {
			t.Fatalf("%s: bounds %v, %v", text, img.Bounds(), err)
		}
		got, version, margin, err := qrtest.Read(img)
		if err != nil || got != text {
			t.Errorf("the picture of %q says %q, %v", text, got, err)
		}
		if margin < quietZone {
			t.Errorf("%q: a quiet zone of %d modules, scanners need %d", text, margin, quietZone)
		}
		seen[version] = true
	}
	if len(seen) < 4 {
		t.Errorf("only the versions %v were read", seen)
	}
}
