package humancheck

import (
	"bytes"
	"encoding/base64"
	"image"
	"math"
	"strings"
	"testing"
)

// TestAttackSlideSolver measures what doc.go says of slides: a short program finds
// the gap, because it is darker than what surrounds it, and the tile shows its outline. Better pictures
// would make it fail; the sentence, and README's, would then have to change.
func TestAttackSlideSolver(t *testing.T) {
	t.Parallel()
	const pictures = 12
	a, err := newArtist()
	if err != nil {
		t.Fatal(err)
	}
	tolerance, solved := NewConfig(Settings{}, "").Tolerance, 0
	for range pictures {
		p, err := a.draw()
		if err != nil {
			t.Fatal(err)
		}
		if off := solveSlide(t, &p.shown) - p.answer; max(off, -off) <= tolerance {
			solved++
		}
	}
	t.Logf("the solver found %d of %d gaps", solved, pictures)
	if solved <= pictures/2 {
		t.Errorf("the solver found %d of %d gaps: say in doc.go and README what slides stop now", solved, pictures)
	}
}

// solveSlide returns where the background is darker inside the tile's outline than
// outside, along the whole outline.
func solveSlide(t *testing.T, p *SlidePicture) (x int) {
	t.Helper()
	tile, background := pixels(t, p.Tile), pixels(t, p.Background)
	inside := func(i, j int) bool {
		_, _, _, alpha := tile.At(i, j).RGBA()
		return alpha > math.MaxUint16/2
	}
	var outline [][4]int // a point inside, a point outside
	for i := range p.TileWidth {
		for j := range p.TileHeight {
			for _, d := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
				if inside(i, j) && !inside(i+d[0], j+d[1]) {
					outline = append(outline, [4]int{i - 2*d[0], j - 2*d[1], i + 3*d[0], j + 3*d[1]})
				}
			}
		}
	}
	best := math.Inf(-1)
	for at := p.TileX + p.TileWidth/2; at+p.TileWidth <= p.Width; at++ {
		sum := 0.0
		for _, o := range outline {
			step := math.Log((1 + luma(background, at+o[2], p.TileY+o[3])) / (1 + luma(background, at+o[0], p.TileY+o[1])))
			sum += max(-1, min(step, 1)) // one bright spot must not decide
		}
		if sum > best {
			best, x = sum, at
		}
	}
	return x
}

func luma(img image.Image, x, y int) float64 {
	r, g, b, _ := img.At(x, y).RGBA()
	return float64(r) + 2*float64(g) + float64(b)
}

func pixels(t *testing.T, uri string) image.Image {
	t.Helper()
	_, text, _ := strings.Cut(uri, ",")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	img, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return img
}
