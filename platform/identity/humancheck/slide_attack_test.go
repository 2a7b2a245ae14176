package humancheck

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAttackSlideSolver measures what doc.go and README say of slides, with a
// program that knows how the pictures are made: it finds the gaps by the tile's
// outline, and follows the lines of the tile into each.
func TestAttackSlideSolver(t *testing.T) {
	t.Parallel()
	const pictures = 40
	a := &artist{rng: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same pictures each time
	solvers := map[string]func(*solver, int) float64{
		"neighbours": func(s *solver, x int) float64 { return s.neighbours(x, false) },
		"directions": func(s *solver, x int) float64 { return s.neighbours(x, true) },
		"lines":      (*solver).lines,
	}
	sub, found, solved, passed := rush(7, 42), 0, map[string]int{}, 0
	b := setup(t)
	for range pictures {
		p, err := a.draw()
		if err != nil {
			t.Fatal(err)
		}
		s := newSolver(t, &p.shown)
		right := func(x int) bool { return max(x-p.answer, p.answer-x) <= b.cfg.Tolerance }
		where := s.gaps()
		if slices.ContainsFunc(where, right) {
			found++
		}
		for name, fits := range solvers {
			best, most := 0, math.Inf(-1)
			for _, x := range where {
				if fit := fits(s, x); fit > most {
					best, most = x, fit
				}
			}
			if right(best) {
				solved[name]++
			}
			if name == "lines" && b.check(Slide, sub, slid(b.slideAt(sub, p.answer), best)) == nil {
				passed++ // with a forged drag
			}
		}
	}
	t.Logf("of %d pictures: the gap was among those found in %d, chosen %v; %d passed with narrowed tolerance", pictures, found, solved, passed)
	if found < pictures*3/4 {
		t.Errorf("the gaps were found in %d of %d pictures: it chose among too few", found, pictures)
	}
	if passed > pictures*3/4 {
		t.Errorf("%d of %d attempts passed: say in doc.go and README what slides stop now", passed, pictures)
	}
}

// solver is what a program sees of a slide.
type solver struct {
	*SlidePicture
	back, tile [][]rgb
	alpha      [][]float64
	outline    []float64 // the tile's radius by direction
}

func newSolver(t *testing.T, p *SlidePicture) *solver {
	t.Helper()
	s := &solver{SlidePicture: p, outline: make([]float64, 96)}
	s.back, _ = pixels(t, p.Background)
	s.tile, s.alpha = pixels(t, p.Tile)
	for k := range s.outline {
		for dx, dy := s.ray(k); s.outline[k] < middle; s.outline[k] += 0.5 {
			if pick(s.alpha, middle+s.outline[k]*dx, middle+s.outline[k]*dy) < 0.2 {
				break
			}
		}
	}
	return s
}

func (s *solver) ray(k int) (dx, dy float64) {
	dy, dx = math.Sincos(2 * math.Pi * float64(k) / float64(len(s.outline)))
	return dx, dy
}

// gaps finds the places where the background is darker inside the outline than
// outside.
func (s *solver) gaps() (where []int) {
	score := map[int]float64{}
	for x := s.TileX + s.TileWidth/2; x+s.TileWidth <= s.Width; x++ {
		where = append(where, x)
		for k, r := range s.outline {
			dx, dy := s.ray(k)
			in, out := s.beyond(x, dx, dy, r-5), s.beyond(x, dx, dy, r+8)
			score[x] += max(-60, min(out[0]+out[1]+out[2]-in[0]-in[1]-in[2], 60))
		}
	}
	slices.SortFunc(where, func(l, r int) int { return cmp.Compare(score[r], score[l]) })
	var best []int
	for _, x := range where {
		if len(best) < gaps && !slices.ContainsFunc(best, func(o int) bool { return max(x-o, o-x) < s.TileWidth/2 }) {
			best = append(best, x)
		}
	}
	return best
}

func (s *solver) beyond(x int, dx, dy, r float64) rgb {
	return pick(s.back, float64(x)+middle+r*dx, float64(s.TileY)+middle+r*dy)
}

// neighbours correlates the colours along the tile's edge with those around a gap,
// straight across or along what leads there.
func (s *solver) neighbours(x int, along bool) (sum float64) {
	var in, out [3][]float64
	for k, r := range s.outline {
		dx, dy := s.ray(k)
		px, py := middle+(r-rim-3)*dx, middle+(r-rim-3)*dy
		qx, qy := middle+(r+fog-1)*dx, middle+(r+fog-1)*dy
		e := edgeAt(s.tile, px, py)
		if way := rim + fog + 2; along && e.clear && math.Abs(e.dx*dx+e.dy*dy) > 0.4 {
			qx, qy = px+e.dx*way/(e.dx*dx+e.dy*dy), py+e.dy*way/(e.dx*dx+e.dy*dy)
		}
		a, b := pick(s.tile, px, py), pick(s.back, qx+float64(x), qy+float64(s.TileY))
		for c := range 3 {
			in[c], out[c] = append(in[c], a[c]), append(out[c], b[c])
		}
	}
	for c := range 3 {
		sum += correlation(in[c], out[c])
	}
	return sum
}

// lines joins each edge in the tile with the one around the gap that continues it
// best: on one arc, nearby, and of the same colour relative to the others.
func (s *solver) lines(x int) (sum float64) {
	var in, out []edge
	for k, r := range s.outline {
		dx, dy := s.ray(k)
		for d := range 3 {
			in = append(in, edgeAt(s.tile, middle+(r-rim-2-2*float64(d))*dx, middle+(r-rim-2-2*float64(d))*dy))
			e := edgeAt(s.back, float64(x)+middle+(r+fog-1+2*float64(d))*dx, float64(s.TileY)+middle+(r+fog-1+2*float64(d))*dy)
			e.x, e.y = e.x-float64(x), e.y-float64(s.TileY)
			out = append(out, e)
		}
	}
	standardize(in)
	standardize(out)
	for _, a := range in {
		most := 0.0
		for _, b := range out {
			far := math.Hypot(b.x-a.x, b.y-a.y)
			if far > 40 {
				continue
			}
			chord := math.Atan2(b.y-a.y, b.x-a.x)
			turn, turned := halfTurn(a.angle-chord), halfTurn(b.angle-chord)
			off := 0.0
			for c := range 3 {
				off += (a.colour[c] - b.colour[c]) * (a.colour[c] - b.colour[c])
			}
			bent := turn + turned // 0 on an arc
			most = max(most, b.strength*math.Exp(-bent*bent/0.12-turn*turn/0.32-far*far/650-off/2))
		}
		sum += a.strength * most
	}
	return sum
}

// edge is the direction of what is at a point, and how strong it is there.
type edge struct {
	x, y, angle, dx, dy, strength float64
	clear                         bool
	colour                        rgb
}

func edgeAt(img [][]rgb, x, y float64) edge {
	var xx, yy, xy float64
	for j := -2.0; j <= 2; j++ {
		for i := -2.0; i <= 2; i++ {
			left, right, up, down := pick(img, x+i-1, y+j), pick(img, x+i+1, y+j), pick(img, x+i, y+j-1), pick(img, x+i, y+j+1)
			for k := range left {
				dx, dy := right[k]-left[k], down[k]-up[k]
				xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
			}
		}
	}
	e := edge{x: x, y: y, angle: math.Atan2(2*xy, xx-yy)/2 + math.Pi/2, colour: pick(img, x, y)}
	e.dy, e.dx = math.Sincos(e.angle)
	difference := math.Hypot(xx-yy, 2*xy)
	e.strength, e.clear = min(math.Sqrt(difference), 300), difference > 0.3*(xx+yy)
	return e
}

// standardize gives the colours of edges a mean of 0 and a deviation of 1.
func standardize(edges []edge) {
	for k := range 3 {
		var sum, squares float64
		for _, e := range edges {
			sum, squares = sum+e.colour[k], squares+e.colour[k]*e.colour[k]
		}
		mean := sum / float64(len(edges))
		deviation := math.Sqrt(squares/float64(len(edges)) - mean*mean)
		for i := range edges {
			edges[i].colour[k] = (edges[i].colour[k] - mean) / deviation
		}
	}
}

func halfTurn(a float64) float64 { return a - math.Pi*math.Round(a/math.Pi) }

// pick returns the nearest pixel.
func pick[T any](img [][]T, x, y float64) T {
	row := img[max(0, min(int(math.Round(y)), len(img)-1))]
	return row[max(0, min(int(math.Round(x)), len(row)-1))]
}

// pixels decodes a picture and smooths its noise.
func pixels(t *testing.T, uri string) (smooth [][]rgb, alpha [][]float64) {
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
	size := img.Bounds().Size()
	sharp := make([][]rgb, size.Y)
	for y := range sharp {
		sharp[y], alpha = make([]rgb, size.X), append(alpha, make([]float64, size.X))
		for x := range sharp[y] {
			c, _ := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			sharp[y][x], alpha[y][x] = rgb{float64(c.R), float64(c.G), float64(c.B)}, float64(c.A)/math.MaxUint8
		}
	}
	for y := range sharp {
		smooth = append(smooth, make([]rgb, size.X))
		for x := range smooth[y] {
			for i := range 9 {
				for k, v := range pick(sharp, float64(x+i%3-1), float64(y+i/3-1)) {
					smooth[y][x][k] += v / 9
				}
			}
		}
	}
	return smooth, alpha
}
