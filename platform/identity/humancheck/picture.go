package humancheck

import (
	"encoding/base64"
	"fmt"

	"github.com/wenlng/go-captcha-assets/resources/images"
	"github.com/wenlng/go-captcha-assets/resources/tiles"
	"github.com/wenlng/go-captcha/v2/slide"
)

// picture is a slide captcha and its answer.
type picture struct {
	shown  SlidePicture
	answer int // the tile's left edge when it is in its gap, pixels
}

// backgroundQuality is the JPEG quality: 10 KiB instead of the 50 KiB at full
// quality, and still good on a phone.
const backgroundQuality = 75

// maxImageBytes bounds the two images together, before base64. With the library's
// pictures they have 15 KiB on average, and at most 21 KiB in 600 samples.
const maxImageBytes = 48 << 10

// gaps is how many gaps a picture has, of one shape and in one row: the tile's and a
// decoy. A person sees where the tile's part of the picture belongs; with more gaps,
// two of them often show too little to tell.
const gaps = 2

// artist draws pictures. Only one goroutine may use it.
type artist struct{ captcha slide.Captcha }

// newArtist unpacks the library's pictures, which takes 30 ms and 2 MiB.
func newArtist() (*artist, error) {
	backgrounds, err := images.GetImages()
	if err != nil {
		return nil, fmt.Errorf("humancheck: read backgrounds: %w", err)
	}
	shapes, err := tiles.GetTiles()
	if err != nil {
		return nil, fmt.Errorf("humancheck: read tiles: %w", err)
	}
	var graphs []*slide.GraphImage
	for _, t := range shapes {
		graphs = append(graphs, &slide.GraphImage{OverlayImage: t.OverlayImage, ShadowImage: t.ShadowImage, MaskImage: t.MaskImage})
	}
	b := slide.NewBuilder(slide.WithGenGraphNumber(gaps))
	b.SetResources(slide.WithBackgrounds(backgrounds), slide.WithGraphImages(graphs))
	return &artist{captcha: b.Make()}, nil
}

// draw makes a picture in about 15 ms of one core.
func (a *artist) draw() (picture, error) {
	drawn, err := a.captcha.Generate()
	if err != nil {
		return picture{}, fmt.Errorf("humancheck: draw a slide: %w", err)
	}
	background, err := drawn.GetMasterImage().ToBytesWithQuality(backgroundQuality)
	if err != nil {
		return picture{}, fmt.Errorf("humancheck: encode a slide's background: %w", err)
	}
	tile, err := drawn.GetTileImage().ToBytes()
	if err != nil {
		return picture{}, fmt.Errorf("humancheck: encode a slide's tile: %w", err)
	}
	if n := len(background) + len(tile); n > maxImageBytes {
		return picture{}, fmt.Errorf("humancheck: a slide has %d bytes, more than the documented maximum of %d", n, maxImageBytes)
	}
	size, at := drawn.GetMasterImage().Get().Bounds(), drawn.GetData()
	return picture{
		shown: SlidePicture{
			Background: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(background),
			Tile:       "data:image/png;base64," + base64.StdEncoding.EncodeToString(tile),
			Width:      size.Dx(), Height: size.Dy(),
			TileX: at.DX, TileY: at.DY, TileWidth: at.Width, TileHeight: at.Height,
		},
		answer: at.X,
	}, nil
}
