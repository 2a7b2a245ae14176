package humancheck

import "math"

// sketch is where a picture's gaps are, and which of them is the tile's own.
type sketch struct {
	x   [gaps]int // left edges, ascending
	y   int
	own int
	// outline is the tile's: how its radius varies around the centre.
	outline [3]struct{ size, phase float64 }
}

// radius is the distance of the outline from the centre, pixels.
func (s *sketch) radius(angle float64) float64 {
	r := 0.84
	for k, o := range s.outline {
		r += o.size * math.Cos(float64(k+2)*angle+o.phase)
	}
	return min(r, 0.98) * tileSize / 2
}

const middle = (tileSize - 1) / 2.0

// depth is how far inside the outline a pixel of the tile lies, about.
func (s *sketch) depth(i, j float64) float64 {
	i, j = i-middle, j-middle
	return s.radius(math.Atan2(j, i)) - math.Hypot(i, j)
}

type canvas [pictureHeight][pictureWidth]rgb

// at is the nearest pixel's colour.
func (c *canvas) at(x, y float64) *rgb {
	i, j := int(math.Round(x)), int(math.Round(y))
	return &c[max(0, min(j, pictureHeight-1))][max(0, min(i, pictureWidth-1))]
}

// mean is the mean colour of a tile's square.
func (c *canvas) mean(x, y int) (sum rgb) {
	for j := range tileSize {
		for i := range tileSize {
			for k, v := range c[y+j][x+i] {
				sum[k] += v
			}
		}
	}
	return sum.times(1.0 / (tileSize * tileSize))
}

// stroke is an arc that leads through a gap: its colour, half its width, its
// direction and bend in the middle, and where that is from the gap's centre.
type stroke struct {
	colour                    rgb
	half, angle, bend, dx, dy float64
}

const (
	strokes = 3
	// strokeReach is how far a stroke leads from its middle, pixels.
	strokeReach = 50
	// arrangements is how many arrangements of strokes are tried, see sketch.
	arrangements = 20
)

// arrangement is two variants of each stroke. The gaps have all four combinations of
// the variants of the first two strokes, in an order that turn changes, and the last
// stroke alike: seen without the tile, no gap differs from the others in kind.
type arrangement struct {
	variants [strokes][2]stroke
	turn     int
}

func (a *artist) arrangement() (r arrangement) {
	r.turn = a.rng.IntN(gaps)
	h, apart := a.rng.Float64(), a.rng.Perm(strokes)
	for n := range r.variants {
		side := 7 * float64(apart[n]-1)
		s := stroke{
			colour: hue(h+float64(n)/strokes, 0.55, a.within(0.45, 0.95)), half: a.within(2.5, 3.7),
			angle: math.Pi/2 + a.within(-0.8, 0.8), bend: a.within(-1, 1), dx: side + a.within(-3, 3), dy: a.within(-8, 8),
		}
		other := s
		if n < strokes-1 {
			other.angle += a.within(0.4, 0.6) * float64(1-2*a.rng.IntN(2))
			other.dx, other.dy = side+a.within(-3, 3), a.within(-8, 8)
		}
		r.variants[n] = [2]stroke{s, other}
	}
	return r
}

// paint draws the strokes over a canvas.
func (r *arrangement) paint(c *canvas, s *sketch) {
	for n := strokes - 1; n >= 0; n-- { // those that tell the gaps apart on top
		for g, x := range s.x {
			c.arc(r.variants[n][(g^r.turn)>>n&1], float64(x)+tileSize/2, float64(s.y)+tileSize/2)
		}
	}
}

// arc draws a stroke through the gap around a centre.
func (c *canvas) arc(s stroke, cx, cy float64) {
	for _, step := range [2]float64{2, -2} {
		x, y, angle := cx+s.dx, cy+s.dy, s.angle
		for range strokeReach / 2 {
			sin, cos := math.Sincos(angle)
			x, y, angle = x+step*cos, y+step*sin, angle+step*s.bend/40
			c.dot(s, x, y)
		}
	}
}

func (c *canvas) dot(s stroke, x, y float64) {
	for j := max(0, int(y-s.half)); j <= min(int(y+s.half+1), pictureHeight-1); j++ {
		for i := max(0, int(x-s.half)); i <= min(int(x+s.half+1), pictureWidth-1); i++ {
			if d := s.half + 0.5 - math.Hypot(float64(i)-x, float64(j)-y); d > 0 {
				c[j][i] = c[j][i].mix(s.colour, 0.8*min(d, 1))
			}
		}
	}
}

// ground paints the background: colours that change slowly, two pixels at a time.
func (a *artist) ground() {
	h, light, tint := a.rng.Float64(), a.wave(0.02), a.wave(0.02)
	for y := range pictureHeight {
		for x := range pictureWidth {
			if x%2 == 0 && y%2 == 0 {
				fx, fy := float64(x), float64(y)
				a.base[y][x] = hue(2+h+0.12*tint.at(fx, fy), 0.35, 0.55+0.15*light.at(fx, fy))
			} else {
				a.base[y][x] = a.base[y&^1][x&^1]
			}
		}
	}
}

// sketch paints a scene. Of several arrangements it takes one in which the tile's
// own gap fits the tile, as a program sees it, not better than the others: the place
// of its own gap in their order is drawn first, at random.
func (a *artist) sketch() sketch {
	s := sketch{y: 20 + a.rng.IntN(pictureHeight-tileSize-40), own: a.rng.IntN(gaps)}
	for i := range s.outline {
		s.outline[i].size, s.outline[i].phase = a.within(0, 0.09), a.within(0, 2*math.Pi)
	}
	const first = tileStart + tileSize + gapMargin
	shift := a.rng.IntN(pictureWidth - first - gaps*(tileSize+gapMargin) + 1)
	for g := range s.x {
		s.x[g] = first + shift + g*(tileSize+gapMargin)
	}
	a.ground()
	var best arrangement
	wanted, nearest := a.rng.IntN(gaps), gaps
	for range arrangements {
		r := a.arrangement()
		a.scene = a.base
		r.paint(&a.scene, &s)
		place := s.place(&a.scene)
		if off := max(place-wanted, wanted-place); off < nearest {
			best, nearest = r, off
		}
		if nearest == 0 {
			return s
		}
	}
	a.scene = a.base
	best.paint(&a.scene, &s)
	return s
}

// seam is a pair of points: one in the tile, from its upper left corner, and one
// beyond its outline.
type seam struct{ x, y, outX, outY float64 }

// place is how many gaps fit better than the tile's own.
func (s *sketch) place(c *canvas) (better int) {
	seams := s.seams(c)
	own := c.fit(seams, s.x[s.own], s.x[s.own], s.y)
	for g, x := range s.x {
		if g != s.own && c.fit(seams, s.x[s.own], x, s.y) > own {
			better++
		}
	}
	return better
}

// seams are twice so many pairs as there are directions from the centre: straight
// across the outline, and along what leads there in the tile.
func (s *sketch) seams(c *canvas) (list []seam) {
	const directions = 96
	for k := range directions {
		angle := 2 * math.Pi * float64(k) / directions
		sin, cos := math.Sincos(angle)
		in, out := s.radius(angle)-rim-3, s.radius(angle)+fog-1
		p := seam{middle + in*cos, middle + in*sin, middle + out*cos, middle + out*sin}
		list = append(list, p)
		along, plain := c.direction(p.x+float64(s.x[s.own]), p.y+float64(s.y))
		dy, dx := math.Sincos(along)
		if ahead := dx*cos + dy*sin; plain && math.Abs(ahead) > 0.4 {
			p.outX, p.outY = p.x+dx*(out-in)/ahead, p.y+dy*(out-in)/ahead
		}
		list = append(list, p)
	}
	return list
}

// direction is along which line the colours at a point change least, and whether
// that is plain.
func (c *canvas) direction(x, y float64) (angle float64, plain bool) {
	var xx, yy, xy float64
	for j := -2.0; j <= 2; j++ {
		for i := -2.0; i <= 2; i++ {
			left, right, up, down := c.at(x+i-1, y+j), c.at(x+i+1, y+j), c.at(x+i, y+j-1), c.at(x+i, y+j+1)
			for k := range left {
				dx, dy := right[k]-left[k], down[k]-up[k]
				xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
			}
		}
	}
	return math.Atan2(2*xy, xx-yy)/2 + math.Pi/2, math.Hypot(xx-yy, 2*xy) > 0.3*(xx+yy)
}

// fit is how well the tile of one gap fits into another: the sum of the correlations
// of the three colours over both kinds of seams.
func (c *canvas) fit(seams []seam, from, to, y int) (sum float64) {
	for k := range 3 {
		for kind := range 2 {
			var in, out []float64
			for i := kind; i < len(seams); i += 2 {
				p := seams[i]
				in = append(in, c.at(p.x+float64(from), p.y+float64(y))[k])
				out = append(out, c.at(p.outX+float64(to), p.outY+float64(y))[k])
			}
			sum += correlation(in, out)
		}
	}
	return sum
}

// correlation is Pearson's; 0 if either does not vary.
func correlation(a, b []float64) float64 {
	var ma, mb, ab, aa, bb float64
	for i := range a {
		ma, mb = ma+a[i]/float64(len(a)), mb+b[i]/float64(len(b))
	}
	for i := range a {
		x, y := a[i]-ma, b[i]-mb
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa*bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
