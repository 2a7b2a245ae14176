package humancheck

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
)

// picture is a slide captcha and its answer.
type picture struct {
	shown  SlidePicture
	answer int // the tile's left edge when it is in its gap, pixels
}

const (
	pictureWidth, pictureHeight = 300, 220
	// tileSize is the width and height of the tile, as much as gaps leave room for.
	tileSize = 52
	// tileStart is where the tile's left edge starts.
	tileStart = 2
	// gaps is how many gaps of the tile's shape are in one row. The lines that lead
	// into them tell a person which is the tile's; one guess in gaps is right.
	gaps = 4
	// gapMargin is how far the outlines of two gaps' squares are apart, at least.
	gapMargin = 2

	// rim is how wide the tile's edge is, which shows nothing of the picture, and
	// fog how far a gap covers what surrounds it, pixels. People continue a line over
	// both; a program that compares neighbouring pixels sees none.
	rim, fog = 6.0, 6.0
	// grain is the standard deviation of the noise, of 255.
	grain = 8.0

	// backgroundQuality is the JPEG quality: still good on a phone.
	backgroundQuality = 75
	// maxImageBytes bounds the two images together, before base64: they have 19 KiB
	// on average.
	maxImageBytes = 48 << 10
)

// artist draws pictures. Only one goroutine may use it.
type artist struct {
	rng         *rand.Rand
	base, scene canvas // the background, and with the lines
}

func newArtist() *artist {
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:])                      // it never fails, see crypto/rand
	return &artist{rng: rand.New(rand.NewChaCha8(seed))} //nolint:gosec // ChaCha8 with a secret seed cannot be predicted
}

// draw makes a picture in about 15 ms of one core.
func (a *artist) draw() (picture, error) {
	s := a.sketch()
	var background, tile bytes.Buffer
	if err := jpeg.Encode(&background, a.background(&s), &jpeg.Options{Quality: backgroundQuality}); err != nil {
		return picture{}, fmt.Errorf("humancheck: encode a slide's background: %w", err)
	}
	if err := png.Encode(&tile, a.tile(&s)); err != nil {
		return picture{}, fmt.Errorf("humancheck: encode a slide's tile: %w", err)
	}
	if n := background.Len() + tile.Len(); n > maxImageBytes {
		return picture{}, fmt.Errorf("humancheck: a slide has %d bytes, more than the documented maximum of %d", n, maxImageBytes)
	}
	return picture{
		shown: SlidePicture{
			Background: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(background.Bytes()),
			Tile:       "data:image/png;base64," + base64.StdEncoding.EncodeToString(tile.Bytes()),
			Width:      pictureWidth, Height: pictureHeight,
			TileX: tileStart, TileY: s.y, TileWidth: tileSize, TileHeight: tileSize,
		},
		answer: s.x[s.own],
	}, nil
}

// background is the scene with its gaps, each filled with a dark smooth shade.
func (a *artist) background(s *sketch) image.Image {
	var fill [gaps]rgb
	var shade [gaps]wave
	for g, x := range s.x {
		fill[g], shade[g] = a.scene.mean(x, s.y).times(0.6), a.wave(0.05)
	}
	img := image.NewRGBA(image.Rect(0, 0, pictureWidth, pictureHeight))
	for y := range pictureHeight {
		for x := range pictureWidth {
			c := a.scene[y][x]
			for g, left := range s.x {
				i, j := float64(x-left), float64(y-s.y)
				if i < -fog || j < -fog || i > tileSize+fog || j > tileSize+fog {
					continue
				}
				cover := 0.98 * between((s.depth(i, j)+fog)/4)
				c = c.mix(fill[g].times(1+0.2*shade[g].at(i, j)), cover)
			}
			n := grain * a.rng.NormFloat64()
			img.SetRGBA(x, y, color.RGBA{level(c[0] + n), level(c[1] + n), level(c[2] + n), math.MaxUint8})
		}
	}
	return img
}

// tile is what its gap covers, in another light and with other noise.
func (a *artist) tile(s *sketch) image.Image {
	left := s.x[s.own]
	edge, light := a.scene.mean(left, s.y), a.wave(0.04)
	var gain, offset rgb
	for k := range gain {
		gain[k], offset[k] = a.within(0.8, 1.15), a.within(-15, 15)
	}
	img := image.NewNRGBA(image.Rect(0, 0, tileSize, tileSize))
	for j := range tileSize {
		for i := range tileSize {
			d, lit := s.depth(float64(i), float64(j)), 1+0.15*light.at(float64(i), float64(j))
			c := edge.mix(a.scene[s.y+j][left+i], between((d-rim)/4))
			n := grain * a.rng.NormFloat64()
			for k := range c {
				c[k] = (c[k]*gain[k]+offset[k])*lit + n
			}
			img.SetNRGBA(i, j, color.NRGBA{level(c[0]), level(c[1]), level(c[2]), level(math.MaxUint8 * between(d/2))})
		}
	}
	return img
}

// rgb is a colour; 255 is full intensity.
type rgb [3]float64

func (c rgb) times(f float64) rgb { return rgb{c[0] * f, c[1] * f, c[2] * f} }

// mix returns c with a share of another colour.
func (c rgb) mix(other rgb, share float64) rgb {
	for k := range c {
		c[k] += (other[k] - c[k]) * share
	}
	return c
}

// hue returns a colour; h is in turns, saturation and value from 0 to 1.
func hue(h, saturation, value float64) (c rgb) {
	for k, n := range [3]float64{5, 3, 1} {
		at := math.Mod(n+h*6, 6)
		c[k] = math.MaxUint8 * value * (1 - saturation*between(min(at, 4-at)))
	}
	return c
}

// between limits v to 0 to 1.
func between(v float64) float64 { return max(0, min(v, 1)) }

func level(v float64) uint8 { return uint8(max(0, min(v+0.5, math.MaxUint8))) }

// wave is a smooth random function of a place, mostly from -1 to 1.
type wave [3]struct{ x, y, phase float64 }

func (a *artist) wave(frequency float64) (w wave) {
	for i := range w {
		sin, cos := math.Sincos(a.within(0, 2*math.Pi))
		f := frequency * a.within(0.5, 1.5)
		w[i].x, w[i].y, w[i].phase = f*cos, f*sin, a.within(0, 2*math.Pi)
	}
	return w
}

func (w *wave) at(x, y float64) (v float64) {
	for i := range w {
		v += 0.4 * math.Sin(w[i].x*x+w[i].y*y+w[i].phase)
	}
	return v
}

func (a *artist) within(low, high float64) float64 { return low + (high-low)*a.rng.Float64() }
