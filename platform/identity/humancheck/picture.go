package humancheck

import (
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// album is a bounded stock of slide pictures, each of which is handed out once. One
// goroutine draws; callers wait for it when the stock is empty.
type album struct {
	ready  chan picture
	wanted chan struct{} // closed by the first request for a picture
	once   sync.Once
	misses prometheus.Counter

	// patience is how long a caller waits: maxPictureWait except in tests.
	patience time.Duration
}

func newAlbum(size int, reg prometheus.Registerer) *album {
	auto := promauto.With(reg)
	a := &album{
		ready: make(chan picture, size), wanted: make(chan struct{}), patience: maxPictureWait,
		misses: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_human_pictures_missed_total", Help: "Requests for a slide picture that found the stock empty, so that the shopper had to wait.",
		}),
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_human_pictures", Help: "Slide pictures in stock.",
	}, func() float64 { return float64(len(a.ready)) })
	return a
}

// want starts the worker. A shop that never shows a slide never draws one.
func (a *album) want() { a.once.Do(func() { close(a.wanted) }) }

// maxPictureWait is how long a shopper waits for a picture. When requests outrun the
// drawing, failing is better than waiting longer.
const maxPictureWait = 2 * time.Second

// take returns a picture that is handed out to no other caller.
func (a *album) take(ctx context.Context) (picture, error) {
	a.want()
	select {
	case p := <-a.ready:
		return p, nil
	default:
	}
	a.misses.Inc()
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	select {
	case p := <-a.ready:
		return p, nil
	case <-ctx.Done():
		return picture{}, fmt.Errorf("humancheck: wait for a slide picture: %w", ctx.Err())
	}
}

// idleShare is how many parts of the time the worker rests for each part that it
// draws while pictures are in stock: an expected crowd needs the processor more than
// the stock does.
const idleShare = 3

// run keeps the stock full until ctx ends.
func (a *album) run(ctx context.Context) error {
	select {
	case <-a.wanted:
	case <-ctx.Done():
		return nil
	}
	artist, err := newArtist()
	if err != nil {
		return err
	}
	for {
		began := time.Now()
		p, err := artist.draw()
		if err != nil {
			return err
		}
		took := time.Since(began)
		select {
		case a.ready <- p:
		case <-ctx.Done():
			return nil
		}
		if len(a.ready) == 0 {
			continue // a caller was waiting for it, and others may be too
		}
		rest := time.NewTimer(idleShare * took)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return nil
		}
	}
}
